"""Checks of a spec for ParallelCluster."""
