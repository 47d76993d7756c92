"""From a job file to everything that planning needs."""
