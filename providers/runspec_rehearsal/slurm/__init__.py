"""A real Slurm on this machine, to rehearse on: the daemons of the packages of Debian, below one folder.

Tried with Slurm 22.05.8. Needs neither root nor systemd, names that resolve, or a cgroup file system.
"""

from runspec_rehearsal.slurm.cloud import Cloud
from runspec_rehearsal.slurm.cluster import Cluster, NoSlurm
from runspec_rehearsal.slurm.conf import Partition, Shape
from runspec_rehearsal.slurm.daemons import Failed
from runspec_rehearsal.slurm.machines import Machines

__all__ = ["Cloud", "Cluster", "Failed", "Machines", "NoSlurm", "Partition", "Shape"]
