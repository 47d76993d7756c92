"""The status of jobs, from the queue and from the workspace."""
