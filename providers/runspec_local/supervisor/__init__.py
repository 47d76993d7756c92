"""The process that runs a local job, and the modules that only it imports."""
