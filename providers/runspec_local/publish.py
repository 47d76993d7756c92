"""Publish saved files under their own paths: as links to the objects, or copies if the file system has no links."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.saved_outputs import Copy, publish as publish_outputs
from runspec_local.supervisor import durable


def publish(folder: Path) -> list[str]:
    """Publish the newest saves of the run in *folder*; return a line for each file that cannot be published."""
    saved = folder / "outputs"
    keys = [path.relative_to(saved).as_posix() for path in saved.glob("*/*/*/.runspec/*")]
    return publish_outputs(_Folder(saved), "", keys)


class _Folder(NamedTuple):
    saved: Path

    def holds(self, key: str) -> bool:
        del key
        return True

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        return [_content(self.saved / key) for key in keys]

    def put(self, key: str, content: bytes) -> None:
        durable.write(self.saved / key, content)

    def remove_all(self, keys: Sequence[str], folder: str) -> None:
        for key in keys:
            _remove(self.saved / key, self.saved / folder)

    def copy_all(self, copies: Sequence[Copy], folder: str) -> None:
        for copy in copies:
            _link(self.saved / copy.source, self.saved / copy.target, self.saved / folder)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _remove(path: Path, top: Path) -> None:
    """Remove a file, and folders up to *top* that are then empty, since a file may take their place."""
    _stay(path, top)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.unlink()
    with contextlib.suppress(OSError):  # ENOTEMPTY: the folder has other files, and stays
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
        except OSError:  # the file system has no links, or the file has too many
            shutil.copyfile(source, part)
            part.chmod(0o600)
        os.rename(part, target)
    finally:
        part.unlink(missing_ok=True)  # renaming a file to another of its links does nothing


def _stay(path: Path, top: Path) -> None:
    """Raise RemoteError if a link leads *path* out of its output."""
    if not path.parent.resolve().is_relative_to(top.resolve()):
        raise RemoteError(f"a link leads {path.parent} out of {top}", "remove the link")
