"""What Slurm cannot do of a spec."""
