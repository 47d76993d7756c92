"""AWS Batch: its resources, its jobs and its operations."""
