"""A real Slurm on this machine for rehearsals: the daemons of Debian's packages, with all files in one folder.

Tested with Slurm 22.05.8, 24.11.5 and 26.05.5. It needs neither root nor systemd, nor names that resolve, nor a cgroup
file system.
"""

from runspec_emulators.slurm.cloud import Cloud
from runspec_emulators.slurm.cluster import Cluster, NoSlurm
from runspec_emulators.slurm.conf import Partition, Shape
from runspec_emulators.slurm.daemons import Failed
from runspec_emulators.slurm.machines import Machines

__all__ = ["Cloud", "Cluster", "Failed", "Machines", "NoSlurm", "Partition", "Shape"]
