"""The entry points of the agent: a job on a node, a Slurm batch process, a shell in a job, a relayed port."""
