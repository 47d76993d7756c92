"""How an elastic job has ended none of whose jobs is left: its nodes keep it in the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec.provider import Status, elastic_end, elastic_status
from runspec_slurm.shelf import Shelf


def over(shelf: Shelf, run: str, record: Mapping[str, Any], ended: Status) -> Status:
    """Give how the run has ended: as *ended* says, unless its nodes know better."""
    count = record["count"] // (record["elastic"]["max"] if record.get("elastic") else 1)
    found = elastic_end(record, count, lambda path: shelf.read("runs", run, *path.split("/")))
    return ended if found is None else elastic_status(found, ended.nodes)
