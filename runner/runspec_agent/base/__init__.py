"""What every part of the agent builds on: environment variables, files, processes, failures, and the boot program."""
