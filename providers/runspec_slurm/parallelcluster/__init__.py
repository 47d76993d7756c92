"""AWS ParallelCluster: a cluster of Slurm that AWS scales, made from the same spec."""

from __future__ import annotations

from runspec_slurm.parallelcluster.provider import PROVIDER as PROVIDER
