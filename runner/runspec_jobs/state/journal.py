"""The journal of a run: the requests that were begun and their results, one line with a checksum per event.

A line is written to disk before the request that it announces is made. The state of a run follows from all its
lines in order; an incomplete last line is dropped. The first line names the format. A newer version that continues an
older journal names its own format in a line before the first line that older versions would misread.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from runspec_jobs import record_formats
from runspec_jobs.errors import Damaged
from runspec_jobs.provider import Response, State, Status
from runspec_jobs.state import atomic_io

FORMAT = "runspec.journal/v1"
Event = Mapping[str, Any]


@dataclass
class RunState:
    """The state of a run, computed from the events in its journal."""

    want: str = "run"  # run | cancel | destroy
    attempted: set[str] = field(default_factory=set)  # steps that were ever begun, refused or not
    begun: set[str] = field(default_factory=set)  # steps that were begun and not refused since
    answers: dict[str, Response] = field(default_factory=dict)
    stopped: set[int] = field(
        default_factory=set
    )  # tasks that were stopped because they were no longer needed
    # The nodes that are to be away while `resize` or `release` is at work, and those that are to come back; None if
    # neither is. A node is a task and a number.
    resizing: set[tuple[int, int]] | None = None
    returning: set[tuple[int, int]] = field(default_factory=set)
    undone: set[str] = field(default_factory=set)
    refused: str = ""  # why the last request was refused, until another one is begun
    status: Status | None = None  # set once the run has ended
    deleted: bool = False
    attempts: dict[tuple[int, int, int], Event] = field(
        default_factory=dict
    )  # `machines.spent.Span`
    cost: Event | None = None  # of all attempts, as `machines.spent.write_part` wrote it
    metric: Event | None = (
        None  # the best value so far: `name`, `task`, and `value` unless its task failed
    )
    born: float = 0.0
    # What a list of runs shows: `provider`, `nodes`, `tasks`, `file`, `commit`, `logs` and `outputs`, and if `file`
    # is mounted, its `bytes` and `sha256` as `spec_file`. Empty if the run is older than this field; an adopted run
    # has the last two.
    about: Event = field(default_factory=dict)
    begun_at: dict[str, float] = field(default_factory=dict)  # steps, when they were last begun
    done_at: dict[str, float] = field(default_factory=dict)  # those of them that were done
    ended_at: float | None = None  # when the end of the run was noticed
    number: int = (
        0  # position among the runs of this machine in the order of their start; 0 if unknown
    )

    def apply_event(self, event: Event) -> None:
        """Update the state by the next event."""
        match event["event"]:
            case "born":
                self.born = event["at"]
                self.number = event.get("number", 0)
                self.about = event.get("about", {})
            case "begun":
                self.begun.add(event["step"])
                self.attempted.add(event["step"])
                self.begun_at[event["step"]] = event.get("at", 0.0)
                self.refused = ""
            case "refused":
                self.begun.discard(event["step"])
                self.refused = event["why"]
            case "done":
                self.begun.add(event["step"])
                self.attempted.add(event["step"])
                self.answers[event["step"]] = event["answer"]
                if event["step"] in self.begun_at:  # not so if this machine has adopted the run
                    self.done_at[event["step"]] = event.get("at", 0.0)
            case "want":
                self.want = event["want"]
            case "stop" | "resize" | "resized":
                self._leave_out(event)
            case "undone":
                self.undone.add(event["step"])
            case "attempts" | "seen" | "metric":
                self._see(event)
            case "ended":
                self.status = Status(State(event["state"]), event["reason"], event["exit_code"])
                self.ended_at = event.get("at")
            case "deleted":
                self.deleted = True

    def _leave_out(self, event: Event) -> None:
        """Note tasks that are stopped, or nodes of an elastic job that are to be away or to come back."""
        if event["event"] == "stop":
            self.stopped.update(event["tasks"])
        elif event["event"] == "resize":
            self.resizing = {(task, rank) for task, rank in event["away"]}
            self.returning = {(task, rank) for task, rank in event["back"]}
        else:
            self.resizing, self.returning = None, set()

    def _see(self, event: Event) -> None:
        """Add the attempts of an event, and note that those that run were seen running at its time; or a metric."""
        if event["event"] == "metric":
            self.metric = event if event["value"] is not None else None
            return
        new = event.get("attempts", ())
        self.attempts |= {
            (attempt["task"], attempt["node"], attempt["attempt"]): attempt for attempt in new
        }
        self.cost = event.get("cost") if new else self.cost
        for key, attempt in self.attempts.items():
            if attempt["outcome"] == "running":
                self.attempts[key] = {**attempt, "seen_s": event["at"]}


class Journal:
    """The journal in *folder*, open for writing; hold the run's lock as long as it is open."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"
        with atomic_io.translate_os_errors(self.path):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(self.path, flags, atomic_io.PRIVATE_FILE)
            events, whole = parse(self.path.read_bytes(), str(self.path))
            # A line that was cut off by a crash was never acted upon: the event is written again.
            os.ftruncate(self._fd, whole)
        self.memory = fold(events)

    def add(self, event: str, **fields: Any) -> None:
        """Write one event to disk, and return only when it is there.

        Raises Unavailable if the disk is full or read-only; then nothing was added.
        """
        entry = {"event": event, "at": round(time.time(), 3), **fields}
        before = os.fstat(self._fd).st_size
        with atomic_io.translate_os_errors(self.path):
            try:
                atomic_io.write_all(self._fd, format_line(entry))
                os.fsync(self._fd)
            except OSError:
                # A part of the line would make all later lines unreadable.
                os.ftruncate(self._fd, before)
                raise
        self.memory.apply_event(entry)

    def close(self) -> None:
        os.close(self._fd)


def read(folder: Path) -> RunState:
    """Return the state that the journal in *folder* describes, without changing the journal.

    Raises Damaged if the journal cannot be read.
    """
    path = folder / "journal.jsonl"
    events, _ = parse(read_content(path), str(path))
    if not events or events[0].get("event") != "born":
        raise Damaged(f"{path}: its beginning is missing", hint(folder))
    try:
        return fold(events)
    except (LookupError, TypeError, ValueError) as exc:
        raise Damaged(
            f"{path}: this version of runspec cannot read it: {exc}", hint(folder)
        ) from exc


def read_content(path: Path) -> bytes:
    """Return the content of a file in a run's record. Raises Damaged if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as stream:  # a buffer takes as long as the rest
            return stream.readall()
    except OSError as exc:
        why = (
            "it is missing"
            if isinstance(exc, FileNotFoundError)
            else (exc.strerror or str(exc)).lower()
        )
        raise Damaged(f"{path}: {why}", _hint(exc, path)) from exc


def _hint(exc: OSError, path: Path) -> str:
    """Return the hint for a file that cannot be read: it may be whole, and belong to another user."""
    whole = (
        None if isinstance(exc, IsADirectoryError) else atomic_io.suggest_way_out(exc.errno, path)
    )
    return whole or hint(path.parent)


def hint(folder: Path) -> str:
    """Return the hint for a run whose record in *folder* is damaged."""
    return (
        f"restore the file, or move {folder} elsewhere: runspec then no longer knows this run, and "
        "does not end it; apply --new starts another"
    )


def fold(events: list[Event]) -> RunState:
    """Return the state of a run after *events*."""
    memory = RunState()
    for event in events:
        memory.apply_event(event)
    return memory


def format_line(event: Event) -> bytes:
    """Return *event* as a line of JSON that begins with the checksum of the rest."""
    text = json.dumps(event, ensure_ascii=False)
    body = text.encode(errors="backslashreplace")  # a path may have any bytes
    # Inside of the object, so that other tools can read each line as JSON.
    return b'{"crc": "%08x", %s\n' % (zlib.crc32(body), body[1:])


def parse(data: bytes, name: str) -> tuple[list[Event], int]:
    """Return the events in *data* and the number of its bytes that are complete lines.

    Raises Damaged if a line before the last is damaged, which a crash cannot cause. Raises Newer at the first line
    with a format that this version cannot read, because later lines may have any form.
    """
    lines = data.split(b"\n")[:-1]  # text after the last line break was never written completely
    bodies = [body for body in takewhile(bool, map(_check_line, lines)) if body]
    count = len(bodies)
    events = []
    for event in _parse_events(bodies):
        record_formats.check(event, FORMAT, name)
        events.append(event)
    # A crash can only cut off the end. A good line after a bad one shows damage by something else.
    if any(map(_check_line, lines[count:])):
        raise Damaged(f"{name}:{count + 1}: damaged line", hint(Path(name).parent))
    return events, sum(len(text) + 1 for text in lines[:count])


def _parse_events(bodies: Sequence[bytes]) -> Iterable[Event]:
    """Return the events in lines, read at once: a list of runs reads thousands of journals.

    If one cannot be read, those before it are yielded first, because it may be in a newer format.
    """
    try:
        events: Sequence[Event] = json.loads(f"[{b','.join(bodies).decode()}]")
    except ValueError:  # parse line by line, lazily, to find the line that is wrong
        return map(json.loads, bodies)
    return events


def _check_line(text: bytes) -> bytes | None:
    """Return the JSON of a line without its checksum, or None if the line is damaged."""
    head, mark, rest = text.partition(b'", ')
    if not mark or not head.startswith(b'{"crc": "'):
        return None
    body = b"{" + rest
    return body if head[9:] == b"%08x" % zlib.crc32(body) else None
