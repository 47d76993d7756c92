"""Attempts of a job: the number of this one, how it ended on each node, and whether another follows."""
