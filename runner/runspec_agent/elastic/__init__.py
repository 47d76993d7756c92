"""Elastic jobs: nodes that join and leave a job through the store of its run, without a permanent host."""
