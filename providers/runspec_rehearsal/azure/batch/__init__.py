"""A stand-in for the data plane of Azure Batch (2025-06-01), on the loopback interface of this machine.

Rules come from the models of azure-batch, whose documentation strings hold most of them, and from
the guides; each stands where it is kept, with its source. Tasks really run: as processes, or, with
containerSettings and the engine "podman", in containers.
"""

from runspec_rehearsal.azure.batch.server import AzureBatch
from runspec_rehearsal.azure.batch.settings import Settings

__all__ = ["AzureBatch", "Settings"]
