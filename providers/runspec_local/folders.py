"""Folders of the local store: put there whole or not at all, and taken away again."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from runspec.provider import Bundle, Progress

CHUNK_BYTES = 1 << 20


def is_whole(path: Path) -> bool:
    """Say whether *path* was put there; it gets its name when it is whole."""
    return path.is_dir()


def put(bundle: Bundle, path: Path, progress: Progress) -> None:
    """Make *path* hold *bundle*: copied beside it, and renamed when all is on the disk.

    Of two that do it at once, both are right and one is kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".new-{path.name}-{uuid.uuid4().hex[:8]}")
    for left in path.parent.glob(f".new-{path.name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    fresh.mkdir(mode=0o755)
    done, whole = 0, sum(file.bytes for file in bundle.files)
    for file in bundle.files:
        target = fresh / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o555 if file.executable else 0o444
        with bundle.open(file) as source, open(target, "xb") as copy:
            while data := source.read(CHUNK_BYTES):
                copy.write(data)
                done += len(data)
                progress(done, whole)
            os.fchmod(copy.fileno(), mode)
            copy.flush()
            os.fsync(copy.fileno())
    _name(fresh, path)


def _name(fresh: Path, path: Path) -> None:
    try:
        os.rename(fresh, path)
    except OSError:
        if not path.is_dir():
            raise
        shutil.rmtree(fresh)  # somebody else put the same content there first


def remove(path: Path) -> None:
    """Take *path* away, its name first, so that nobody finds half of it; content without it."""
    gone = path.with_name(f".gone-{path.name}")
    for name in (gone, path):
        if name is path:
            try:
                os.rename(path, gone)
            except FileNotFoundError:
                return
        if gone.exists():
            shutil.rmtree(gone)
