"""A folder of this machine as a job gets it: its files, its digest, and what is read of it.

Nothing is uploaded that was not meant to be: `walk` finds what is taken along, and what is handed
out is checked against what was hashed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from runspec_jobs.errors import Conflict
from runspec_jobs.load.folder_scan import MIB, Found, Opener, Trouble, Walk, opened, shown
from runspec_jobs.provider import File, Progress, Source

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

TRIES = 4  # for a file that changes while it is read
PAUSE_S = 0.25
CHUNK_BYTES = MIB

AGAIN = "run the same command again"


@dataclass(frozen=True)
class FolderBundle:
    """A `Bundle` of the regular files of one folder. Empty folders are not part of it."""

    folder: Path
    digest: str
    files: tuple[File, ...]
    places: Mapping[str, str]  # where each file really lies in the folder, by its path
    identity: tuple[int, int]  # of the folder, so that another in its place is seen

    @property
    def source(self) -> Source:
        return Source(self.digest, len(self.files), sum(file.bytes for file in self.files))

    def open(self, file: File) -> BinaryIO:
        """Open one file; also raises Conflict when it is gone or its size has changed."""
        with _changed(file.path), Opener(self.folder) as opener:
            if opener.identity != self.identity:
                raise Conflict(f"{shown(str(self.folder))} is another folder now", AGAIN)
            raw = io.FileIO(opener.open(self.places[file.path]))
        return io.BufferedReader(_Checked(raw, file), CHUNK_BYTES)


def bundle(folder: Path, *, progress: Progress | None = None) -> FolderBundle:
    """Hash all that *folder* holds for a job; *progress* is told the bytes read and in all.

    The digest depends on paths, contents and executable bits alone. Raises BundleError with
    everything that stands in the way.
    """
    with opened(folder) as opener:
        walk = Walk(opener, os.path.realpath(folder))
        walk.run()
        walk.complain()
        opener.folder("")  # nothing stays open: what the walk saw is looked for anew
        files = _hashed(walk, progress)
        walk.complain()
        return FolderBundle(
            folder=folder.absolute(),
            digest=_digest(files),
            files=files,
            places={found.path: found.place for found in walk.found},
            identity=opener.identity,
        )


# --- hashing, and reading what was hashed ---


class _Unsteady(Exception):
    """A file was written to during every try to read it."""


@dataclass
class _Meter:
    """Tells *progress* how far reading is, at most once for each MiB and at the end."""

    progress: Progress | None
    total: int
    done: int = 0
    told: int = 0

    def at(self, done: int) -> None:
        if self.progress and (done - self.told >= MIB or done == self.total > self.told):
            self.progress(done, self.total)
            self.told = done


def _hashed(walk: Walk, progress: Progress | None) -> tuple[File, ...]:
    meter = _Meter(progress, sum(found.bytes for found in walk.found))
    files = []
    for found in walk.found:
        try:
            files.append(_hash(walk.opener, found, meter))
        except _Unsteady:
            walk.trouble(Trouble.CHANGED, found.path)
        except OSError as exc:
            walk.unreadable(found.path, exc)
        meter.done += found.bytes
        meter.at(meter.done)
    return tuple(files)


def _hash(opener: Opener, found: Found, meter: _Meter) -> File:
    for _ in range(TRIES):
        with io.FileIO(opener.open(found.place)) as file:
            before = os.fstat(file.fileno())
            size, sha256 = _read(file, before.st_size, meter)
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) == (size, after.st_mtime_ns):
            return File(found.path, size, bool(after.st_mode & stat.S_IXUSR), sha256)
        time.sleep(PAUSE_S)
    raise _Unsteady


def _read(file: io.FileIO, expected: int, meter: _Meter) -> tuple[int, str]:
    """Give size and sha256, reading no more than one chunk above *expected* of a growing file."""
    size, sha256 = 0, hashlib.sha256()
    while size <= expected and (data := file.read(CHUNK_BYTES)):
        size += len(data)
        sha256.update(data)
        meter.at(meter.done + min(size, expected))
    return size, sha256.hexdigest()


def _digest(files: Iterable[File]) -> str:
    """Give the digest of the list of *files*; NUL ends a path, which cannot hold one."""
    sha256 = hashlib.sha256(b"runspec.bundle/v1\n")
    for file in files:
        kind = "x" if file.executable else "-"
        sha256.update(f"{file.sha256} {kind} {file.bytes} {file.path}\0".encode())
    return f"sha256:{sha256.hexdigest()}"


@contextlib.contextmanager
def _changed(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise Conflict(f"{shown(path)} changed while it was uploaded: {reason}", AGAIN) from exc


class _Checked(io.RawIOBase):
    """Reads *raw*, the content of *file*, and raises Conflict where it is not what was hashed.

    Whoever reads exactly as many bytes as it should have, is told before the last of them.
    """

    def __init__(self, raw: io.FileIO, file: File) -> None:
        self._raw, self._file = raw, file
        self._sha256, self._size = hashlib.sha256(), 0
        if os.fstat(raw.fileno()).st_size != file.bytes:
            raw.close()
            raise self._conflict()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        count = self._raw.readinto(view) or 0
        self._sha256.update(view[:count])
        self._size += count
        done = self._size >= self._file.bytes or count == 0
        if done and (self._size, self._sha256.hexdigest()) != (self._file.bytes, self._file.sha256):
            raise self._conflict()
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()

    def _conflict(self) -> Conflict:
        return Conflict(f"{shown(self._file.path)} changed while it was uploaded", AGAIN)
