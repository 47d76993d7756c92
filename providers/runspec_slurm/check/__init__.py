"""Checks of a spec for Slurm."""
