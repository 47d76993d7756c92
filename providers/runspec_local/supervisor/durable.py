"""Writes that survive a loss of power. Standard library only, because the supervisor uses them."""

from __future__ import annotations

import os
from pathlib import Path

from runspec_agent.base.light_typing import BinaryIO


def write(path: Path, data: bytes) -> None:
    """Write *data* to *path* atomically and durably, readable only by its owner."""
    temporary = path.with_name(f".{path.name}.new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    os.rename(temporary, path)
    sync(path.parent)


def private_log(path: Path) -> BinaryIO:
    """Open *path* for appending, readable only by its owner; the umask stays as the job needs it."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def sync(folder: Path) -> None:
    """Flush the names in *folder* to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
