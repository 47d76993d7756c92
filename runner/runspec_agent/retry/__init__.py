"""Attempts of a job: which one this is, how it ended on each node, and whether another follows."""
