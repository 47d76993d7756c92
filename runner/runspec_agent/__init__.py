"""The half of runspec that runs inside the job: standard library only, Python 3.6 or newer."""
