"""The log of a container as a node keeps it, and what the kubelet's API gives of it."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple

LOOK_S = 0.1


def write_time(moment: datetime.datetime) -> str:
    """Return *moment* as Kubernetes writes times of logs, in nanoseconds.

    >>> write_time(datetime.datetime(2026, 11, 27, 1, 2, 3, 450000, datetime.UTC))
    '2026-11-27T01:02:03.450000000Z'
    """
    return f"{moment.astimezone(datetime.UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"


class Wanted(NamedTuple):
    """The options of a request for a log: PodLogOptions of the core API."""

    follow: bool = False
    timestamps: bool = False
    since: str = ""
    tail: int | None = None
    limit: int | None = None


def read_options(query: Mapping[str, str]) -> Wanted:
    """Return what the query of the kubelet's API asks for, as the API server passes it on."""
    since = query.get("sinceTime", "")
    if since:
        since = write_time(datetime.datetime.fromisoformat(since))
    if "sinceSeconds" in query:
        age = datetime.timedelta(seconds=int(query["sinceSeconds"]))
        since = write_time(datetime.datetime.now(datetime.UTC) - age)
    tail, limit = (
        int(query[name]) if name in query else None for name in ("tailLines", "limitBytes")
    )
    return Wanted(
        query.get("follow") == "true", query.get("timestamps") == "true", since, tail, limit
    )


class Log:
    """Keeps the output of one container in a file, each line after its time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended = threading.Event()
        path.touch(0o600)

    def keep(self, output: IO[bytes]) -> None:
        """Write down what a container prints until it prints no more."""
        with self.path.open("ab", buffering=0) as file:
            for line in output:
                now = write_time(datetime.datetime.now(datetime.UTC))
                file.write(f"{now} ".encode() + line.rstrip(b"\n") + b"\n")
        self.ended.set()

    def last(self, lines: int, limit: int) -> str:
        """Return the last *lines* lines without times, and of these at most the last *limit* bytes."""
        text = b"".join(self.read(Wanted(tail=lines)))
        return text[-limit:].decode(errors="replace")

    def read(self, wanted: Wanted) -> Iterator[bytes]:
        """Yield what is *wanted*; where it is followed, until the container ends."""
        left = wanted.limit
        for line in self._lines(wanted):
            time_of, _, text = line.partition(b" ")
            if time_of.decode() < wanted.since:
                continue
            part = line if wanted.timestamps else text
            yield part if left is None else part[:left]
            if left is not None:
                left -= len(part)
                if left <= 0:
                    return

    def _lines(self, wanted: Wanted) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            lines = file.readlines()
            yield from (
                lines
                if wanted.tail is None
                else lines[len(lines) - wanted.tail :]
                if wanted.tail
                else []
            )
            while wanted.follow:
                ended = self.ended.is_set()
                yield from file.readlines()
                if ended:
                    return
                time.sleep(LOOK_S)
