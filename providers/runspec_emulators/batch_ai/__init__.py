"""An emulator for Azure Batch AI (ARM, API version 2018-05-01) on the loopback interface of this machine.

Its rules come from the service's official description (azure-rest-api-specs, batchai.json of
2018-05-01) by way of the models in azure-mgmt-batchai, and from the environment variables and
recipes that the service's own repository (github.com/Azure/BatchAI) documents. Jobs really run.

Not rehearsed: regions other than by name, subnets, SSH to nodes, Key Vault, Application Insights,
file modes, GPUs, CNTK's and Caffe's own programs, custom images, node reboots.

Not documented, so a choice: the codes and words of refusals and of job errors; the least time
between states; that a job larger than its cluster can ever be stays queued, and that smaller ones
overtake it; that making the same thing again gives the one that is there; that a log begins anew
when its job is queued again; that deleting a cluster fails its jobs.
"""

from runspec_emulators.batch_ai.emulator import BatchAI
from runspec_emulators.batch_ai.settings import Settings

__all__ = ["BatchAI", "Settings"]
