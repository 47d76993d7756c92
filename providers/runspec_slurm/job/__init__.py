"""The batch script and the arguments of sbatch."""
