"""Secrets of a job, from a file of its run or from a key vault."""
