"""The machines of jobs: compute environments, job queues, launch templates, and file systems."""
