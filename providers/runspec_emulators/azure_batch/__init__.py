"""An emulator for the data plane of Azure Batch (2025-06-01), on the loopback interface of this machine.

Rules come from the models of azure-batch, whose documentation strings hold most of them (a sentence
quoted without an address is from there), and from the guides; each stands where it is kept, with its
source. Tasks really run: as processes, or, with containerSettings and the engine "podman", in
containers.

Not rehearsed, and refused: auto pools, job schedules, job manager and job release tasks, auto
storage, users of nodes, reimaging, applications and their packages, extensions, remote login.
Taken and not acted on: affinity, allowTaskPreemption, retentionTime, resizeTimeout, userIdentity where
no container is (processes run as whoever rehearses),
networks, certificates, disks, images, registries of pools, metrics of machines in formulas (they are
0), `$expand`. What mounts name is not mounted: folders of this machine stand for it.
AZ_BATCH_TASK_SHARED_DIR is not identical on all nodes, for they share this machine's file system.
The engine "process" ignores containers. Node agents do not tell a task that it is to end: SIGKILL.

Not documented, so a choice: how Linux nodes split command lines (as POSIX shells do); that a
coordination command's output goes where that of the application command goes, which follows it;
that a retry on the same node finds the files of the try before, and stdout.txt is new; that a task
that was terminated or took too long has an exit code of 137, and that its output files are taken as
those of any that fails, while those of a preempted one are not; that it is not tried again; which of
409 and 404 answers for files before a task begins and after its node has gone; that numbers of nodes
that formulas give are rounded up; the words of most refusals; that null is refused; that all commands
of a multi-instance task on one node share a container.

The order of things of multi-instance tasks: github.com/Azure-Samples/azure-batch-samples/issues/226.
"""

from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_batch.settings import Settings

__all__ = ["AzureBatch", "Settings"]
