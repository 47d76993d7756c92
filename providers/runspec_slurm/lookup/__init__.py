"""The Slurm jobs of a run."""
