"""The controllers: jobs, the scheduler, garbage collection, quotas and nodes."""
