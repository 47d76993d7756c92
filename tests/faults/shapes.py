"""The shapes that a job has on clouds: what makes it so in a spec, and what is then to be seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Shape(NamedTuple):
    """What stands in a spec and in a profile for it, and how many containers come of one submission."""

    containers: int = 1
    spec: str = ""
    settings: Mapping[str, Any] = {}


SIGNED: Mapping[str, Any] = {"files": "signed", "job_role": None}
SINGLE = Shape()
SHAPES = {
    "array": Shape(2, "sweep: {n: [1, 2]}"),
    "nodes on spot": Shape(2, "cluster: {nodes: 2, capacity: spot}"),
    "multi-node": Shape(2, "cluster: {nodes: 2}"),
    "signed": Shape(2, "sweep: {n: [1, 2]}", SIGNED),
}
ON_AZURE = {
    "collections of tasks": Shape(3, "sweep: {n: [1, 2, 3]}"),  # two of them: see wire_azure.py
    "nodes of one task": Shape(2, "cluster: {nodes: 2}"),
}
ON_BATCH_AI = {
    "jobs of a sweep": Shape(2, "sweep: {n: [1, 2]}\nmax_parallel: 2"),
    "processes of mpirun": Shape(2, "cluster: {nodes: 2}\nlaunch: mpi"),
}
