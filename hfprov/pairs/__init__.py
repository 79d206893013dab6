"""Tests between pairs of hosts: who against whom, and what explains the pairs that fail."""
