"""The state of runspec on this machine: journals, records of runs, and groups of runs."""
