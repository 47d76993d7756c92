"""What happened to the nodes of a run: lines in one file, and how the run stands after them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]


class Events:
    """The events of a run, open for adding."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        self._unwritten = b""

    def add(self, event: str, *, durable: bool = False, **fields: Any) -> None:
        """Add one line. The *durable* ones are there after a loss of power too.

        A disk that takes no more does not stop the job: what it refuses comes before the next
        line. Raises OSError for a durable one only; `flush` tries it again.
        """
        self._unwritten += json.dumps({"event": event, **fields}).encode() + b"\n"
        try:
            self._write()
        except OSError:
            if durable:
                raise
        if durable:
            os.fsync(self._fd)

    def flush(self) -> None:
        """Put all that was added on the disk, or raise OSError."""
        self._write()
        os.fsync(self._fd)

    def _write(self) -> None:
        while self._unwritten:  # a disk that fills up takes a part of a line: its rest comes next
            self._unwritten = self._unwritten[os.write(self._fd, self._unwritten) :]


def read(path: Path) -> list[Event]:
    """Give the events so far; a line that is still being written, or never was to its end, is none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return list(_whole(data.split(b"\n")[:-1]))


def _whole(lines: Iterable[bytes]) -> Iterator[Event]:
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def last(events: Iterable[Event], kind: str) -> Event | None:
    return next((e for e in reversed(list(events)) if e["event"] == kind), None)
