"""Jobs and tasks: how they are added, scheduled, run and ended."""
