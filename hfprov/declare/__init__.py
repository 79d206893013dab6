"""Reading what the user declares: inventory files, variables and connection settings."""
