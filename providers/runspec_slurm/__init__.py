"""The Slurm provider: each job is one batch job of a cluster, with its files in a folder that all nodes share."""

from __future__ import annotations

from runspec_slurm.provider import PROVIDER as PROVIDER
