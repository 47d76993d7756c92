"""What jobs run on: compute environments, job queues, launch templates, and file systems."""
