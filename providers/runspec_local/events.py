"""What happened to the nodes of a run: lines in one file, and how the run stands after them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]


class Events:
    """The events of a run, open for adding."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)

    def add(self, event: str, *, durable: bool = False, **fields: Any) -> None:
        """Add one line. The *durable* ones are there after a loss of power too."""
        os.write(self._fd, json.dumps({"event": event, **fields}).encode() + b"\n")
        if durable:
            os.fsync(self._fd)


def read(path: Path) -> list[Event]:
    """Give the events so far; a line still being written is not one yet."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def last(events: Iterable[Event], kind: str) -> Event | None:
    return next((e for e in reversed(list(events)) if e["event"] == kind), None)
