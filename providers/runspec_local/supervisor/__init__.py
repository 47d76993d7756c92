"""The process that runs a local job, and everything that it imports."""
