"""Plain names for what was saved: links to the objects, or copies where the file system has no links."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from runspec_jobs.provider import Publication, RemoteError, unpublished
from runspec_local.supervisor import durable


def publish(folder: Path) -> list[str]:
    """Give the newest saves of the run in *folder* their plain names; return a line for each that cannot be had."""
    saved = folder / "outputs"

    def read(keys: Sequence[str]) -> list[bytes | None]:
        return [_content(saved / key) for key in keys]

    keys = [path.relative_to(saved).as_posix() for path in saved.glob("*/*/*/.runspec/*")]
    for left in unpublished("", keys, read):
        _finish(saved, left)
    return []


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _finish(saved: Path, left: Publication) -> None:
    top = saved / left.folder
    durable.write(saved / left.key, left.begun())
    for key in left.stale:
        _remove(saved / key, top)
    for copy in left.copies:
        _link(saved / copy.source, saved / copy.target, top)
    durable.write(saved / left.key, left.note())


def _remove(path: Path, top: Path) -> None:
    """Remove a file, and the folders up to *top* that have nothing in them then: a file may come there."""
    _stay(path, top)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.unlink()
    with contextlib.suppress(OSError):
        while (path := path.parent) != top:
            path.rmdir()


def _link(source: Path, target: Path, top: Path) -> None:
    _stay(target, top)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = target.with_name(f".rs-{secrets.token_hex(8)}.part")
    try:
        try:
            os.link(source, part)
        except FileNotFoundError:
            raise
        except OSError:  # there are no links, or too many of this file
            shutil.copyfile(source, part)
            part.chmod(0o600)
        os.rename(part, target)
    finally:
        part.unlink(missing_ok=True)  # a rename to another name of the same file does nothing


def _stay(path: Path, top: Path) -> None:
    """Raise RemoteError where a link leads *path* out of its output."""
    if not path.parent.resolve().is_relative_to(top.resolve()):
        raise RemoteError(f"a link leads {path.parent} out of {top}", "remove the link")
