"""The Slurm provider: a job as one batch job of a cluster, its files on a folder that all nodes share."""

from __future__ import annotations

from runspec_slurm.provider import PROVIDER as PROVIDER
