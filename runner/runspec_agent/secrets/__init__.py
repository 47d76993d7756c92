"""Secrets that a job gets from a file of its run, or from a key vault."""
