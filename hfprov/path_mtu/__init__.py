"""The MTU that the network really carries between nodes, and who is to blame where it does not."""
