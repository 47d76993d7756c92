"""The logs of jobs: follow them, save them, and read metrics from them."""
