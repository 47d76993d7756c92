"""Run a cluster as a program: it prints the variables with which Slurm's commands find it, and ends after a signal."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from runspec_emulators.frame import program
from runspec_emulators.slurm import Cloud, Cluster, Failed, NoSlurm, Shape


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m runspec_emulators.slurm",
        description="Run a Slurm on this machine until Ctrl-C, SIGTERM or the end of stdin.",
    )
    found.add_argument("folder", type=Path, metavar="FOLDER", help="folder of the cluster's files")
    found.add_argument("--nodes", type=int, default=4)
    found.add_argument(
        "--cpus", type=int, default=2, help="of each node; this machine may have fewer"
    )
    found.add_argument(
        "--memory-mb", type=int, default=2000, help="of each node; 0: Slurm does not count memory"
    )
    found.add_argument(
        "--gpus", type=int, default=0, help="of each node; they are device files, not real GPUs"
    )
    how = "start nodes for jobs, like ParallelCluster: --nodes for each of the queues main and spot"
    found.add_argument("--cloud", action="store_true", help=how)
    return found


def started(given: argparse.Namespace) -> Cluster:
    """Start the cluster. Without `--cloud`, all nodes are this machine: jobs distinguish them by RUNSPEC_HOST."""
    shape = Shape(given.cpus, given.memory_mb or None, given.gpus)
    if given.cloud:
        return Cloud(given.folder, given.nodes, shape)
    return Cluster(given.folder, given.nodes, shape, prolog=True, address_in="RUNSPEC_HOST")


def main() -> int:
    given = parser().parse_args()
    end = program.end()
    try:
        with started(given) as cluster:
            program.run(cluster.env, end)
    except (Failed, NoSlurm) as exc:
        sys.stderr.write(f"{exc}\n")
        return 69
    return 0


if __name__ == "__main__":
    sys.exit(main())
