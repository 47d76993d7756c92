"""The Azure Batch provider: a job as tasks on a pool of machines that comes and goes with them."""

from __future__ import annotations

from runspec_azure.batch.provider import PROVIDER as PROVIDER
