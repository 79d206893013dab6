"""Bring bare-metal accelerator nodes to one declared baseline, and prove it."""
