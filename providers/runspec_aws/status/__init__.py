"""The status of jobs, polled from AWS Batch."""
