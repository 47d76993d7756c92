"""The job of a run, its tasks and its secrets."""
