"""The events of a run: one line each in a file, from which the run's status is computed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]


class Events:
    """The events of a run, open for appending."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        self._unwritten = b""

    def add(self, event: str, *, durable: bool = False, **fields: Any) -> None:
        """Append one line. *durable* lines survive a loss of power, too.

        A full disk does not stop the job: a line that cannot be written is written before the next one. Raise OSError
        for a durable line only; `flush` repeats the write.
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
        """Flush all lines to the disk, or raise OSError."""
        self._write()
        os.fsync(self._fd)

    def _write(self) -> None:
        while (
            self._unwritten
        ):  # a disk that fills up accepts part of a line; the rest is written next
            self._unwritten = self._unwritten[os.write(self._fd, self._unwritten) :]


def read(path: Path) -> list[Event]:
    """Return the events so far, without a line that is incomplete."""
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
