"""A minimal tensor program in containers: on every node, and between them."""
