"""An emulator for Azure Batch AI (ARM, API version 2018-05-01) on the loopback interface of this machine.

Its rules come from the service's official description (azure-rest-api-specs, batchai.json of
2018-05-01) by way of the models in azure-mgmt-batchai, and from the environment variables and
recipes that the service's own repository (github.com/Azure/BatchAI) documents. Jobs really run.

Not supported: regions other than by name, subnets, SSH to nodes, Key Vault, Application Insights,
file modes, GPUs, CNTK's and Caffe's own programs, custom images, node reboots.

Chosen here, because the service does not document it: the codes and messages of refused requests and
of job errors; the least time between states; that a job that is larger than its cluster can become
stays queued, and that smaller jobs overtake it; that a repeated request to create a resource returns
the existing one; that a log begins again when its job is queued again; that the jobs of a deleted
cluster fail; that `$NAME`s that are not variables of the service stay unchanged; that a job that reached
maxWallClockTime has the error JobTimedOut; that a file whose name is no UTF-8 stays on the node, where
the other files are saved; that the path of an input directory may be that of a file. Nobody can test this
any more: the service ended on 31 March 2019.
"""

from runspec_emulators.batch_ai.emulator import BatchAI
from runspec_emulators.batch_ai.settings import Settings

__all__ = ["BatchAI", "Settings"]
