"""Read a run on this machine: its status, logs and outputs."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from runspec_agent.base.end_causes import AWAY
from runspec_agent.base.failure import UNSAVED_CODE
from runspec_jobs.provider import (
    Attempt,
    MembershipChange,
    NodeStatus,
    OutputFile,
    RemoteError,
    Seat,
    State,
    Status,
    Unavailable,
    check_format,
)
from runspec_jobs.provider.machines import Usage, read_usage
from runspec_jobs.provider.saved_outputs import read_saved_outputs
from runspec_jobs.provider.streams.log_streams import Chunk, TimedChunk, timed_chunk
from runspec_jobs.provider.types import changes_of, tell_halted
from runspec_local.errors import full_disk
from runspec_local.supervisor import events, process

CHUNK_BYTES = 1 << 20


def job(folder: Path) -> dict[str, Any]:
    """Return the parameters of the run, or an empty dict if it was never started."""
    return _kept(folder / "job.json", {"run", "engine", "grace_s"}) or {}


def supervisor(folder: Path) -> dict[str, Any] | None:
    """Return the identity of the run's supervisor, or None if there was none.

    A supervisor whose `started.json` is damaged or gone is known by its command line while it lives.
    """
    try:
        started = _kept(folder / "started.json", {"pid", "ticks", "boot"})
    except RemoteError:  # pid 0 never runs, so that a run without a supervisor counts as ended
        return process.supervisor_in(folder) or {"pid": 0, "ticks": -1, "boot": process.boot_id()}
    return process.supervisor_in(folder) if started is None else started


def job_if_whole(folder: Path) -> dict[str, Any]:
    """Return the parameters of the run, or an empty dict if they are damaged or it was never started."""
    try:
        return job(folder)
    except RemoteError:
        return {}


def _kept(path: Path, names: set[str]) -> dict[str, Any] | None:
    """Return the content of a JSON file of a run, or None if it does not exist.

    Raise RemoteError if it lacks one of *names*, and Newer if a newer version wrote it.
    """
    why = "it is damaged"
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        check_format(content, process.FORMAT, str(path))
        if names <= content.keys():
            return content
    except FileNotFoundError:
        return None
    except OSError as exc:
        why = (exc.strerror or str(exc)).lower()
    except (ValueError, AttributeError):
        # Not JSON, or JSON but no object: reported as damaged below.
        pass
    hint = f"restore the file, or move {path.parent} away after all processes of the run have ended"
    raise RemoteError(f"{path}: {why}", hint)


def status(folder: Path) -> Status:
    who = supervisor(folder)
    asked_to_end = (folder / "cancel").exists()
    if who is None and not _events(folder):
        return Status(State.CANCELLED, "it had not started") if asked_to_end else Status(State.GONE)
    # read before the events, since it may end in between
    alive = who is not None and process.alive(who)
    noted = _events(folder)
    nodes = tuple(_nodes(noted))
    if end := events.last(noted, "end"):
        ended = Status(State(end["state"]), end["reason"], end["exit_code"], nodes)
        return tell_halted(ended, job_if_whole(folder).get("max_failed"))
    if alive:
        if any(node.state is State.RUNNING for node in nodes):
            return Status(State.RUNNING, "", None, nodes)
        why = next((node.reason for node in nodes if node.state is State.WAITING), "")
        return Status(State.WAITING, why or full_disk(folder), None, nodes)
    if who is not None and who["boot"] != process.boot_id():
        reason = "the machine was restarted while it ran"
    elif asked_to_end:
        reason = "its supervisor had been killed"
        return Status(
            State.CANCELLED, reason, None, tuple(_ended_with(nodes, State.CANCELLED, reason))
        )
    else:
        reason = "its supervisor was killed"
    return Status(State.FAILED, reason, None, tuple(_ended_with(nodes, State.FAILED, reason)))


def present(folder: Path) -> set[Seat]:
    """Return the nodes that run."""
    return {node[:2] for node in status(folder).nodes if node.state is State.RUNNING}


def away(folder: Path) -> set[Seat]:
    """Return the nodes that have left since they were released, or were not started."""
    return {node[:2] for node in status(folder).nodes if node.reason == AWAY}


def released(folder: Path) -> set[Seat]:
    """Return the nodes that were released, and not asked for since."""
    try:
        names = os.listdir(folder / "released")
    except FileNotFoundError:
        return set()
    count = int(job(folder)["nodes"])
    return {divmod(int(name), count) for name in names if name.isdecimal()}


def note_released(folder: Path, away: Collection[Seat], back: Collection[Seat]) -> None:
    """Record that the nodes *away* are released, and that *back* are asked for again."""
    kept, count = folder / "released", int(job(folder)["nodes"])
    for task, rank in away:
        kept.mkdir(mode=0o700, exist_ok=True)
        (kept / str(task * count + rank)).touch(mode=0o600)
    for task, rank in back:
        (kept / str(task * count + rank)).unlink(missing_ok=True)


def _events(folder: Path) -> list[events.Event]:
    """Return the events so far; none if their file cannot be read, which must not keep the run from its end."""
    try:
        return events.read(folder / "events.jsonl")
    except OSError:
        return []


def _ended_with(nodes: Iterable[NodeStatus], state: State, reason: str) -> Iterator[NodeStatus]:
    """Yield *nodes* with those that seem to run marked as ended, because their supervisor is dead."""
    for node in nodes:
        yield node if node.state.terminal else node._replace(state=state, reason=reason)


def _nodes(noted: list[events.Event]) -> Iterator[NodeStatus]:
    """Yield the status of each node after its last event, with its ended attempts."""
    of_node: dict[tuple[int, int], list[events.Event]] = {}
    unsaved: dict[tuple[int, int], list[str]] = {}
    for event in noted:
        if event["event"] == "node":
            of_node.setdefault((event["task"], event["rank"]), []).append(event)
        elif event["event"] == "unsaved":
            unsaved.setdefault((event["task"], event["rank"]), []).append(event["reason"])
    for (task, rank), attempts in sorted(of_node.items()):
        last, began_s = (
            attempts[-1],
            {e["attempt"]: e.get("at") for e in attempts if e["state"] == "running"},
        )
        over = tuple(_attempt(e, began_s.get(e["attempt"])) for e in attempts if "exit_code" in e)
        code, why = last.get("exit_code"), last.get("reason", "")
        why = why if last["state"] == "waiting" or why == AWAY else ""
        code = None if why == AWAY else code
        now_s = began_s.get(last["attempt"]) if last["state"] == "running" else None
        state = State(last["state"])
        if lost := unsaved.get(
            (task, rank)
        ):  # a program has not succeeded if its outputs could not be saved
            why = "; ".join(filter(None, (over[-1].reason if over else "", *lost)))
            if state is State.SUCCEEDED:
                state, code = State.FAILED, UNSAVED_CODE
                over = (*over[:-1], over[-1]._replace(exit_code=UNSAVED_CODE, reason=why))
        yield NodeStatus(task, rank, last["attempt"], state, why, code, over, now_s)


def _attempt(end: events.Event, began_s: float | None) -> Attempt:
    """Return an attempt from the event of its end; older supervisors wrote no reason and no times."""
    code, reason = end["exit_code"], end.get("reason", "")
    ended_s, setup_s = end.get("at"), end.get("setup_s")
    return Attempt(end["attempt"], code, reason, False, began_s, ended_s, setup_s)


@dataclass(frozen=True)
class FileStream:
    """The log of one node: a position is an offset in bytes. *times* are those of `supervisor.log_times`, once read."""

    path: Path
    task: int
    rank: int
    times: list[tuple[int, float]] = field(default_factory=list, compare=False)

    def read(self, position: str | None) -> Chunk:
        offset = int(position or 0)
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                data = file.read(CHUNK_BYTES)
        except FileNotFoundError:
            data = b""  # the run was deleted after its streams were listed
        return Chunk(data, str(offset + len(data)))

    def timed(self, position: str | None) -> TimedChunk:
        """Return a chunk with its times. The end of a log that is not in the index has the time of the last write."""
        chunk, start = self.read(position), int(position or 0)
        end = start + len(chunk.data)
        if not self.times or self.times[-1][0] < end:
            self.times[:] = self._index()
        return timed_chunk(chunk, start, self.times)

    def _index(self) -> list[tuple[int, float]]:
        """Return the index, with the time of the last write at its end."""
        try:
            size, at = (kept := self.path.stat()).st_size, kept.st_mtime
        except FileNotFoundError:
            return []  # the run was deleted after its streams were listed
        index = self.path.with_suffix(".times")
        if not index.exists():
            message = "this log has no times: an earlier version of runspec started the run"
            raise Unavailable(message, "remove --since and --timestamps")
        lines = index.read_text().splitlines()
        sizes = [(int(size), float(other)) for size, _, other in (x.partition(" ") for x in lines)]
        return [*sizes, (size, at)] if not sizes or sizes[-1][0] < size else sizes


def streams(folder: Path) -> list[FileStream]:
    files = []
    for path in (folder / "logs").glob("*-*.log"):
        task, rank = path.stem.split("-")
        files.append(FileStream(path, int(task), int(rank)))
    return sorted(files, key=lambda stream: (stream.task, stream.rank))


def outputs(folder: Path) -> list[OutputFile]:
    """Return all saved files, as runspec_agent.transfer.folder_sync wrote them."""

    def opened(key: str, start: int, end: int | None) -> BinaryIO:
        assert (start, end) == (0, None), "BUG: files on this machine are read whole"
        return _opened(saved / key)

    saved = folder / "outputs"
    manifests = saved.glob("*/*/*/.runspec/manifest.json")
    return read_saved_outputs(
        "", [(path.relative_to(saved).as_posix(), 0) for path in manifests], opened
    )


def _opened(path: Path) -> BinaryIO:
    """Open a file; a pipe or a device in its place would be waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as exc:  # else it would be told of the file that it is copied to
        raise RemoteError(f"{path} was deleted", "the run may have been destroyed") from exc
    file = open(handle, "rb")  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise RemoteError(f"{path} is not a file", "remove it")
    return file


def usage(folder: Path, most: int | None) -> Usage:
    """Return what the nodes used, as `runspec_agent.usage` wrote it."""

    def read(names: Sequence[str]) -> list[bytes | None]:
        return [_content(base / name) for name in names]

    base = folder / "usage"
    return read_usage((str(path.relative_to(base)) for path in base.glob("*/*/*")), read, most)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # the run was deleted meanwhile
        return None


def changes(folder: Path) -> list[MembershipChange]:
    """Return the membership changes of an elastic job, as the first node of each generation wrote them."""
    records = (folder / "elastic").glob("*/changes/[0-9]*")
    return changes_of((int(path.parents[1].name), path.read_bytes()) for path in records)
