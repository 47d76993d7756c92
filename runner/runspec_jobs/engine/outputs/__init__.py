"""Outputs of runs: copied to this machine, laid out there, and published in the store."""
