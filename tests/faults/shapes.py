"""The shapes that a job has on clouds: what makes it so in a spec, and what is then to be seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Shape(NamedTuple):
    """What stands in a spec and in a profile for it, and how many containers come of one submission."""

    containers: int = 1
    spec: str = ""
    settings: Mapping[str, Any] = {}
    quick: str = ":"  # what a job does that is to end by itself
    jobs: int = 1  # of which one submission consists
    elastic: bool = False  # containers run once in each generation; of these there may be several


SIGNED: Mapping[str, Any] = {"files": "signed", "job_role": None}
SINGLE = Shape()
SHAPES = {
    "array": Shape(2, "sweep: {n: [1, 2]}"),
    "nodes on spot": Shape(2, "cluster: {nodes: 2, capacity: spot}"),
    "multi-node": Shape(2, "cluster: {nodes: 2}"),
    "signed": Shape(2, "sweep: {n: [1, 2]}", SIGNED),
}
SECRET = Shape(spec="secrets: {CANARY: {from: caller}}")
# The second node may come when the first one's program runs: that begins again with both.
BOTH = 'until grep -q " 0[.]1 " "$TRUTH"; do sleep 0.1; done'
ELASTIC = Shape(2, "cluster: {nodes: {min: 1, max: 2}}", quick=BOTH, elastic=True)
# On a cluster whose arrays have ten tasks at most: two jobs.
SPLIT = Shape(11, "sweep: {n: 1..11}", jobs=2)
ON_AZURE = {
    "collections of tasks": Shape(3, "sweep: {n: [1, 2, 3]}"),  # two of them: see wire_azure.py
    "nodes of one task": Shape(2, "cluster: {nodes: 2}"),
}
ON_BATCH_AI = {
    "jobs of a sweep": Shape(2, "sweep: {n: [1, 2]}\nmax_parallel: 2"),
    "processes of mpirun": Shape(2, "cluster: {nodes: 2}\nlaunch: mpi"),
}
