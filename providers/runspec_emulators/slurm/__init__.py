"""A real Slurm on this machine, to rehearse on: the daemons of the packages of Debian, below one folder.

Tried with Slurm 22.05.8. Needs neither root nor systemd, names that resolve, or a cgroup file system.
"""

from runspec_emulators.slurm.cloud import Cloud
from runspec_emulators.slurm.cluster import Cluster, NoSlurm
from runspec_emulators.slurm.conf import Partition, Shape
from runspec_emulators.slurm.daemons import Failed
from runspec_emulators.slurm.machines import Machines

__all__ = ["Cloud", "Cluster", "Failed", "Machines", "NoSlurm", "Partition", "Shape"]
