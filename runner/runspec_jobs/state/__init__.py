"""What runspec keeps on this machine: journals, records of runs, and groups of runs."""
