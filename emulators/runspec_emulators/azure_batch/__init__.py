"""An emulator for the data plane of Azure Batch (2025-06-01), on the loopback interface of this machine.

Rules come from the models of azure-batch, whose documentation strings hold most of them (a sentence
quoted without an address is from there), and from the guides; each rule is next to the code that
enforces it, with its source. Tasks really run: as processes, or, with containerSettings and the engine
"podman", in containers.

Not supported, and refused: auto pools, job schedules, job manager and job release tasks, auto
storage, users of nodes, reimaging, applications and their packages, extensions, remote login.
Accepted without effect: affinity, allowTaskPreemption, retentionTime, resizeTimeout, userIdentity of
tasks without a container (processes run as the user who started the emulator),
networks, certificates, disks, images, registries of pools, metrics of machines in formulas (they are
0), `$expand`. File systems in mounts are not mounted: folders of this machine replace them.
AZ_BATCH_TASK_SHARED_DIR is not identical on all nodes, because they share this machine's file system.
The engine "process" ignores containers. Tasks are ended by SIGKILL, without an earlier signal.

Chosen here, because the service does not document it: Linux nodes split command lines as POSIX shells
do; the outputs of a coordination command and of the application command after it are in the same
files; a retry on the same node finds the files of the attempt before, but stdout.txt is new; a task
that was terminated or took too long has an exit code of 137 and is not retried, and its output files
are uploaded as those of any failed task, while those of a preempted one are not; which of 409 and 404
answers a request for files before a task begins and after its node was removed; numbers of nodes
that formulas return are rounded up; the messages of most errors; null is refused; all commands
of a multi-instance task on one node share a container.

The order of the steps of multi-instance tasks: github.com/Azure-Samples/azure-batch-samples/issues/226.
"""

from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_batch.settings import Settings

__all__ = ["AzureBatch", "Settings"]
