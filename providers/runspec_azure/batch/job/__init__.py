"""The job of a run and its tasks."""
