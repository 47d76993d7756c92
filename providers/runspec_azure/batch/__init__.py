"""The Azure Batch provider: jobs whose tasks run on an autoscaled pool of machines."""

from __future__ import annotations

from runspec_azure.batch.provider import PROVIDER as PROVIDER
