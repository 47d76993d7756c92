"""The shapes that a job has on AWS Batch: what makes it so in a spec, and what is then to be seen."""

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
