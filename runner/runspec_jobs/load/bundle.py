"""Hashes a folder of this machine for upload to a job, and opens its files for the upload.

`folder_scan` finds the files. A file is checked against its hash while it is read for the upload, so
that nothing is uploaded that the plan does not contain.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from runspec_jobs.errors import Conflict
from runspec_jobs.load import file_digest
from runspec_jobs.load.file_digest import PART_BYTES
from runspec_jobs.load.folder_scan import (
    MIB,
    Found,
    LeftOut,
    Opener,
    Trouble,
    Walk,
    open_top,
    quote_path,
)
from runspec_jobs.provider import File, Progress, Source
from runspec_jobs.provider.types import PARTS, WHOLE

ATTEMPTS = 4  # the most attempts to read a file that changes meanwhile
PAUSE_S = 0.25
FORMATS = {WHOLE: b"runspec.bundle/v1\n", PARTS: b"runspec.bundle/v2\n"}

AGAIN = "run the same command again"


@dataclass(frozen=True)
class FolderBundle:
    """A `Bundle` of the regular files of one folder. Empty folders are not part of it."""

    folder: Path
    digest: str
    files: tuple[File, ...]
    places: Mapping[
        str, str
    ]  # the path of each file in the folder after links are resolved, by its path
    identity: tuple[
        int, int
    ]  # device and inode of the folder, to notice if another one replaces it
    left_out: tuple[LeftOut, ...] = ()
    fetched: tuple[str, ...] = ()  # the files that `runspec fetch` put into a named folder
    is_file: bool = False  # whether one file of the folder is mounted

    @property
    def source(self) -> Source:
        return self._source_of(self.digest, self.files)

    def _source_of(self, digest: str, files: Sequence[File]) -> Source:
        return Source(digest, len(files), sum(file.bytes for file in files), self.is_file)

    def replace_file(self, path: str, size: int, sha256: str) -> Source:
        """Return `source` as if the file *path* had *size* bytes with the digest *sha256*."""
        changed = (
            file._replace(bytes=size, sha256=sha256) if file.path == path else file
            for file in self.files
        )
        files = tuple(changed)
        return self._source_of(_digest(files), files)

    def open(self, file: File) -> BinaryIO:
        """Open one file. Raises Conflict if it no longer exists or its size has changed."""
        with _translate_errors(file.path), Opener(self.folder) as opener:
            # The same path may lead to another folder by now.
            if opener.identity != self.identity:
                raise Conflict(
                    f"{quote_path(str(self.folder))} was replaced by another folder", AGAIN
                )
            raw = io.FileIO(opener.open(self.places[file.path]))
        changed = Conflict(f"{quote_path(file.path)} changed while it was uploaded", AGAIN)
        return file_digest.open_checked(raw, file, changed)


def bundle(
    folder: Path,
    *,
    spec: str = "",
    progress: Progress | None = None,
    whole: bool = False,
    recipe: str | None = None,
    env_file: str | None = None,
) -> FolderBundle:
    """Hash the files of *folder*, which the spec called *spec* mounts.

    *recipe* is the Containerfile of a build, whose context the folder is. If it is *whole*, such as a copy of what a
    job has saved, no rule leaves a file out or refuses it. *env_file* is the absolute path of the spec's file of
    variables. It is left out if its name looks like that of a secret, because the job gets its variables anyway.
    *progress* is called with the bytes read so far and the total.

    The digest depends only on paths, contents and executable bits. Raises BundleError with every
    problem that prevents the upload.
    """
    with open_top(folder) as opener:
        real = os.path.realpath(folder)
        walk = Walk(opener, real, spec, whole=whole, recipe=recipe, env_file=env_file)
        walk.run()
        walk.complain()
        opener.open_folder("")  # close the subfolders: hashing looks up each path again
        files = hash_file(walk, progress)
        walk.complain()
        return FolderBundle(
            folder=folder.absolute(),
            digest=_digest(files),
            files=files,
            places={entry.path: entry.place for entry in walk.found},
            identity=opener.identity,
            left_out=tuple(walk.left_out),
            fetched=tuple(walk.fetched),
        )


def bundle_file(file: Path, name: str, progress: Progress | None = None) -> FolderBundle:
    """Hash *file* alone, which is called *name* in the bundle.

    A link is followed, and no rule leaves the file out, because the spec names it. Raises BundleError if its name looks
    like that of a secret that `.runspecignore` beside it does not permit, or if it cannot be read.
    """
    real = Path(os.path.realpath(file))
    with open_top(real.parent) as opener:
        walk = Walk(opener, str(real.parent))
        walk.take_named(real.name, file.name)
        walk.complain()
        (hashed,) = hash_file(walk, progress) or (None,)
        walk.complain()
        assert hashed is not None, "BUG: a file that cannot be read is a problem"
        files = (hashed._replace(path=name),)
        return FolderBundle(
            folder=real.parent,
            digest=_digest(files),
            files=files,
            places={name: real.name},
            identity=opener.identity,
            is_file=True,
        )


# --- hashing files, and reading them again for the upload ---


class _Unsteady(Exception):
    """A file changed during every attempt to read it."""


@dataclass
class _Meter:
    """Calls *progress* with the number of bytes read, at most once for each MiB and at the end."""

    progress: Progress | None
    total: int
    done: int = 0
    told: int = 0

    def add(self, read: int) -> None:
        """Note that *read* bytes of the present file were read."""
        self.report(self.done + read)

    def report(self, done: int) -> None:
        if self.progress and (done - self.told >= MIB or done == self.total > self.told):
            self.progress(done, self.total)
            self.told = done


def hash_file(walk: Walk, progress: Progress | None) -> tuple[File, ...]:
    meter = _Meter(progress, sum(entry.bytes for entry in walk.found))
    files = []
    for entry in walk.found:
        try:
            files.append(_hash(walk.opener, entry, meter))
        except _Unsteady:
            walk.add_trouble(Trouble.CHANGED, entry.path)
        except OSError as exc:
            walk.add_unreadable(entry.path, exc)
        meter.done += entry.bytes
        meter.report(meter.done)
    return tuple(files)


def _hash(opener: Opener, entry: Found, meter: _Meter) -> File:
    for _ in range(ATTEMPTS):
        with io.FileIO(opener.open(entry.place)) as file:
            before = os.fstat(file.fileno())
            size, sha256 = file_digest.hash_content(file, before.st_size, meter.add)
            after = os.fstat(file.fileno())
        # A file that was written meanwhile has another size or time, as far as the file system's clock can tell.
        if (before.st_size, before.st_mtime_ns) == (size, after.st_mtime_ns):
            mode = stat.S_IMODE(after.st_mode) & 0o777
            executable = bool(mode & stat.S_IXUSR)
            return File(entry.path, size, executable, sha256, mode, int(after.st_mtime))
        time.sleep(PAUSE_S)
    raise _Unsteady


def _digest(files: Sequence[File]) -> str:
    """Return the digest of the list of *files*; each path ends with NUL, which no path contains.

    The digest of a folder without larger files is the one of versions that knew no parts.
    """
    kind = PARTS if any(file.bytes > PART_BYTES for file in files) else WHOLE
    sha256 = hashlib.sha256(FORMATS[kind])
    for file in files:
        mode = "x" if file.executable else "-"
        # The format is frozen: every digest, and so every name in a store, depends on it.
        sha256.update(f"{file.sha256} {mode} {file.bytes} {file.path}\0".encode())
    return f"{kind}{sha256.hexdigest()}"


@contextlib.contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise Conflict(
            f"{quote_path(path)} changed while it was uploaded: {reason}", AGAIN
        ) from exc
