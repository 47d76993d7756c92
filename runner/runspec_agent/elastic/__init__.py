"""Elastic jobs: nodes that come and go meet in the store of the run, and no host has to stay for that."""
