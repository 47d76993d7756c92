"""The AWS ParallelCluster provider: jobs on a Slurm cluster that runspec makes and AWS scales."""

from __future__ import annotations

from runspec_parallelcluster.provider import PROVIDER as PROVIDER
