"""Reboots: drain, reboot, wait, prove that the right machine came back right, release."""
