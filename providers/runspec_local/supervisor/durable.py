"""What a loss of power must not take back. Standard library only: the supervisor uses it, too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def write(path: Path, data: bytes) -> None:
    """Put *data* at *path* for its owner alone, all or nothing, and for good."""
    temporary = path.with_name(f".{path.name}.new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    os.rename(temporary, path)
    sync(path.parent)


def private_log(path: Path) -> BinaryIO:
    """Open *path* for adding; its owner alone reads it, and the umask is the job's own matter."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def sync(folder: Path) -> None:
    """Put the names in *folder* on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
