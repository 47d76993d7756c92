"""Run a cluster as a program: it prints the variables with which Slurm's commands find it, and ends after a signal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from runspec_emulators.frame import program
from runspec_emulators.slurm import Cloud, Cluster, Failed, NoSlurm, Shape


def started(folder: Path, nodes: int, shape: Shape, *, cloud: bool) -> Cluster:
    """Start the cluster. Unless *cloud* is true, all nodes are this machine: jobs distinguish them by RUNSPEC_HOST."""
    if cloud:
        return Cloud(folder, nodes, shape)
    return Cluster(folder, nodes, shape, prolog=True, address_in="RUNSPEC_HOST")


def main(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="folder of the cluster's files")],
    nodes: Annotated[int, Option("--nodes")] = 4,
    cpus: Annotated[int, Option("--cpus", help="of each node; this machine may have fewer")] = 2,
    memory_mb: Annotated[
        int, Option("--memory-mb", help="of each node; 0: Slurm does not count memory")
    ] = 2000,
    gpus: Annotated[
        int, Option("--gpus", help="of each node; they are device files, not real GPUs")
    ] = 0,
    cloud: Annotated[
        bool,
        Option(
            "--cloud",
            help="start nodes for jobs, like ParallelCluster: "
            "--nodes for each of the queues main and spot",
        ),
    ] = False,
) -> None:
    """Run a Slurm on this machine until Ctrl-C, SIGTERM or the end of stdin."""
    end = program.end()
    try:
        with started(folder, nodes, Shape(cpus, memory_mb or None, gpus), cloud=cloud) as cluster:
            program.run(cluster.env, end)
    except (Failed, NoSlurm) as exc:
        sys.stderr.write(f"{exc}\n")
        raise Exit(69) from exc


if __name__ == "__main__":
    program.call(main)
