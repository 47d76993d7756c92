"""The events of a run: one line each in a file, from which the run's status is computed."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from runspec_agent.base.light_typing import Any
from runspec_local.supervisor import durable

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


# Notes each second how long the logs of nodes are, so that it is known when a line was printed. Standard library
# only.
#
# Beside the log `T-R.log` is `T-R.times`, with a line for each second in which the log grew: its length in bytes,
# and the middle of that second in seconds since 1970.


EVERY_S = 1.0


class LogTimes:
    """Notes the lengths of the logs that are watched."""

    def __init__(self) -> None:
        self._lengths: dict[
            Path, int
        ] = {}  # the lengths that were noted last, also of earlier attempts
        self._watched: set[Path] = set()
        self._next_s = 0.0
        self._looked_s = time.time()

    @property
    def next_s(self) -> list[float]:
        """The time of `time.monotonic` at which to call `note` again, if any log is watched."""
        return [self._next_s] if self._watched else []

    def watch(self, log: Path) -> None:
        """Note the length of *log* from now on; the index exists before the log does."""
        with contextlib.suppress(OSError):
            durable.private_log(_index(log)).close()
        if not self._watched:
            self._looked_s = time.time()
        self._lengths.setdefault(log, 0)
        self._watched.add(log)

    def note(self) -> None:
        """Note the lengths, unless that was done less than a second ago."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            for log in self._watched:
                self._note(log)
            self._looked_s = time.time()

    def end(self, task: int) -> None:
        """Note the lengths of the logs of a task whose attempt has ended, and watch them no longer."""
        for log in [log for log in self._watched if log.name.startswith(f"{task}-")]:
            self._note(log)
            self._watched.remove(log)

    def _note(self, log: Path) -> None:
        """Write a line if the log has grown; a full disk or a deleted run ends nothing."""
        with contextlib.suppress(OSError):
            length = os.stat(log).st_size
            if length != self._lengths[log]:
                with durable.private_log(_index(log)) as index:
                    index.write(b"%d %.1f\n" % (length, (self._looked_s + time.time()) / 2))
                self._lengths[log] = length


def _index(log: Path) -> Path:
    return log.with_suffix(".times")
