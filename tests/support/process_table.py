"""What all processes of this machine were started with: some of them end while one looks, and are left out. proc(5)"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def words() -> Iterator[tuple[int, bytes]]:
    """Give the pid of each process, and its words, each with a NUL behind."""
    return _read("cmdline")


def environments() -> Iterator[tuple[int, bytes]]:
    """Give the pid of each process, and its variables, each with a NUL behind."""
    return _read("environ")


def marked(mark: str) -> list[int]:
    """Give the processes that have *mark* in their environment."""
    return [pid for pid, found in environments() if mark.encode() in found]


def children() -> dict[int, list[int]]:
    """Give the processes that each has started, and that are its own still."""
    found: dict[int, list[int]] = {}
    for pid, stat in _read("stat"):
        found.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(pid)
    return found


def descendants(pid: int) -> list[int]:
    """Give all processes below *pid*."""
    below, found, todo = children(), [], [pid]
    while todo:
        new = below.get(todo.pop(), [])
        found += new
        todo += new
    return found


def _read(name: str) -> Iterator[tuple[int, bytes]]:
    for path in Path("/proc").glob(f"[0-9]*/{name}"):
        try:
            yield int(path.parent.name), path.read_bytes()
        except OSError:
            continue
