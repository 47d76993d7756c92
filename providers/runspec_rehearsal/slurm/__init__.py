"""A real Slurm on this machine, to rehearse on: the daemons of the packages of Debian, below one folder.

Tried with Slurm 22.05.8. Needs neither root nor systemd, names that resolve, or a cgroup file system.
"""

from runspec_rehearsal.slurm.cluster import Cluster, NoSlurm
from runspec_rehearsal.slurm.conf import Partition, Shape
from runspec_rehearsal.slurm.daemons import Failed

__all__ = ["Cluster", "Failed", "NoSlurm", "Partition", "Shape"]
