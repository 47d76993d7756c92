"""The Azure Batch provider: a job as tasks on a pool of machines that comes and goes with them."""
