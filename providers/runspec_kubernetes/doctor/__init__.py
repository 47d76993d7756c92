"""What would stop a job on Kubernetes, before anything is made."""
