"""Saves the logs of jobs to files, byte for byte."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import BinaryIO

from runspec_jobs.logs.outage import Outage
from runspec_jobs.provider.streams.log_streams import Stream
from runspec_jobs.state import atomic_io


def choose_path(task: int, rank: int, target: Path, nodes: int, tasks: int) -> Path:
    """Return the path for the log of a node of a run with *tasks* of *nodes* each: *target*, or a file in it."""
    if nodes == tasks == 1 and not target.is_dir():
        return target
    of_task = f"task-{task}-" if tasks > 1 else ""
    return target / f"{of_task}node-{rank}.log"


def choose_unfinished_paths(path: Path) -> tuple[Path, Path]:
    """Return the paths of the copy that is to become *path*, and of its position, until it is complete."""
    return path.with_name(f"{path.name}.partial"), path.with_name(f"{path.name}.cursor")


def is_unfinished(partial: Path, cursor: Path) -> bool:
    """Return whether *partial* is a copy that can be continued at the position in *cursor*."""
    with contextlib.suppress(OSError):
        status = partial.lstat()
        position, size = _read_cursor(cursor)
        regular = stat.S_ISREG(status.st_mode) and not cursor.is_symlink()
        return regular and position is not None and 0 <= size <= status.st_size
    return False


class Copy:
    """Copies *stream* to *path*, byte for byte.

    Until the copy is complete it is in `PATH.partial`, and `PATH.cursor` has its position, so that a process that is
    killed at any time can be started again and continues the copy. A device, a pipe or a link such as /dev/stdout gets
    the copy when it is complete, and stays what it is.
    """

    def __init__(self, stream: Stream, path: Path) -> None:
        self.stream, self.path = stream, path
        self.more = False  # whether the log is not complete, although its run may have ended
        with atomic_io.translate_os_errors(path):
            self._special = atomic_io.open_special(path)
            self._own = None if self._special is None else tempfile.TemporaryDirectory()
            beside = path if self._own is None else Path(self._own.name, "log")
            self._partial, self._cursor = choose_unfinished_paths(beside)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._position, size = _read_cursor(self._cursor)
            handle = os.open(self._partial, os.O_RDWR | os.O_CREAT, atomic_io.PRIVATE_FILE)
            self._file: BinaryIO = open(handle, "r+b")  # noqa: SIM115 - closed by close
            # What was written after the last cursor may be incomplete: the data goes to disk first, then the
            # cursor.
            self._file.truncate(size)
            self._file.seek(size)

    def close(self) -> None:
        self._file.close()
        if self._special is not None:
            with contextlib.suppress(OSError):  # what is not written has been reported
                self._special.close()
        if self._own is not None:
            self._own.cleanup()

    def advance(self) -> None:
        """Copy new data, and write the position in the stream and the size of the copy to the cursor."""
        while (chunk := self.stream.read(self._position)).data:
            with atomic_io.translate_os_errors(self.path):
                self._file.write(chunk.data)
                self._file.flush()
                # Before the cursor, which promises that these bytes are there.
                os.fsync(self._file.fileno())
                self._position = chunk.position
                kept = {"position": self._position, "size": self._file.tell()}
                atomic_io.write(self._cursor, json.dumps(kept).encode())
        self.more = chunk.more

    def finish(self, pause: Callable[[float], None]) -> int:
        """Read the stream once more, correct differences in the copy, rename it, and return its size.

        *pause* is called with 0 before a read of the rest that the service cannot deliver yet.
        """
        self._file.seek(0)
        position = None
        while (chunk := self.stream.read(position)).data or chunk.more:
            if not chunk.data:
                pause(0.0)
            at = self._file.tell()
            with atomic_io.translate_os_errors(self.path):
                if self._file.read(len(chunk.data)) != chunk.data:
                    self._file.seek(at)
                    self._file.write(chunk.data)
            position = chunk.position
        with atomic_io.translate_os_errors(self.path):
            self._file.truncate()
            self._file.flush()
            os.fsync(self._file.fileno())
            size = self._file.tell()
            if self._special is not None:
                self._file.seek(0)
                shutil.copyfileobj(self._file, self._special)
                self._special.flush()
            else:
                os.replace(self._partial, self.path)
                self._cursor.unlink(missing_ok=True)
        return size


def _read_cursor(cursor: Path) -> tuple[str | None, int]:
    try:
        content = json.loads(cursor.read_bytes())
        return content["position"], int(content["size"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        # No copy was begun, or its cursor is damaged: copy from the beginning.
        return None, 0


def is_beginning(path: Path, stream: Stream) -> bool:
    """Return whether the file *path* has the beginning of *stream*, or all of it: an older copy of the same log."""
    position = None
    with path.open("rb") as file:
        while data := (chunk := stream.read(position)).data:
            part = file.read(len(data))
            if not data.startswith(part):
                return False
            if len(part) < len(data):
                return True
            position = chunk.position
        return not file.read(1)


def save(
    streams: Callable[[], Iterable[Stream]],
    locate: Callable[[Stream], Path],
    over: Callable[[], bool],
    pause: Callable[[float], None],
    outage: Outage,
    demand: Callable[[Stream, Path], None] = lambda stream, path: None,
) -> list[tuple[Stream, Path, int]]:
    """Copy all *streams*, to which more may be added, until *over* returns that the run has ended.

    *demand* is called before anything is written to a path, and may raise an error.
    Return each stream with its path and size. *pause* is called with the seconds to wait because of an outage, or 0.
    """
    copies: dict[tuple[int, int], Copy] = {}

    def advance() -> bool:
        last = over()
        for stream in streams():
            key = (stream.task, stream.rank)
            if key not in copies:
                demand(stream, path := locate(stream))
                copies[key] = Copy(stream, path)
            copies[key].advance()
        return last and not any(copy.more for copy in copies.values())

    try:
        while not outage.call_until_answered("service", advance, pause):
            pause(0.0)
        finished = [copy for _, copy in sorted(copies.items())]
        sizes = [
            outage.call_until_answered("logs", partial(copy.finish, pause), pause)
            for copy in finished
        ]
        return [(c.stream, c.path, size) for c, size in zip(finished, sizes, strict=True)]
    finally:
        for copy in copies.values():
            copy.close()
