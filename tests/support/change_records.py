"""Records of changes, as the nodes of an elastic job write them down."""

from __future__ import annotations

import json
from typing import Any

RECORD: dict[str, Any] = {
    "generation": 1,
    "why": "somebody joined",
    "before": 1,
    "nodes": 2,
    "hosts": ["g", "h"],
    "came": [{"node": 1, "host": "h"}],
    "left": [],
    "lost": [{"node": 2, "host": "i", "why": "it was silent"}],
    "at": 5.0,
    "gap_s": 1.5,
    "lost_steps": 3,
    "first_step": 12,
    "since": 1,
    "exact": True,
}


def record(generation: int, **more: Any) -> bytes:
    """Give the record of *generation*, on one line."""
    return json.dumps({**RECORD, "generation": generation, **more}, sort_keys=True).encode()


def at(generation: int, task: int = 0) -> str:
    """Give where it lies below the run."""
    return f"elastic/{task}/changes/{generation:07}"
