"""Outputs that jobs sent as one tar: the files in it, without getting all of it."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

BLOCK_BYTES = 1 << 20  # read at once: small files lie in it together, large ones are skipped
LINKS = 8  # one after the other, before a link is taken for a ring

Reads = Callable[[int, int], bytes]
"""Gives the bytes from a start up to an end."""


class Member(NamedTuple):
    """A file in a tar, and where its bytes are."""

    path: str
    start: int
    bytes: int


class Ranges(io.RawIOBase):
    """Something that can be read in ranges, as a file."""

    def __init__(self, read: Reads, size: int) -> None:
        self._read, self._size, self._at = read, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # what BufferedReader gives
        end = min(self._size, self._at + len(buffer))
        data = self._read(self._at, end) if end > self._at else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def members(read: Reads, size: int) -> Iterator[Member]:
    """Give the files of a tar; a link to a file in it is that file once more.

    What leaves the folder is left out: nothing of ours can have made it. Raises tarfile.TarError
    for what is no tar.
    """
    files: dict[str, Member] = {}
    links: dict[str, str] = {}
    stream = io.BufferedReader(Ranges(read, size), BLOCK_BYTES)
    with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as archive:
        for found in archive:
            path = posixpath.normpath(found.name)
            if found.isreg():
                files[path] = Member(path, found.offset_data, found.size)
                links.pop(path, None)
            elif found.islnk():
                links[path] = posixpath.normpath(found.linkname)
            elif found.issym():
                links[path] = posixpath.normpath(
                    posixpath.join(posixpath.dirname(path), found.linkname)
                )
    yield from (file for path, file in files.items() if _inside(path))
    for path in links:
        target = _followed(path, links)
        if target in files and _inside(path):
            yield files[target]._replace(path=path)


def _inside(path: str) -> bool:
    return not path.startswith(("/", "../")) and path != ".."


def _followed(path: str, links: dict[str, str]) -> str:
    for _ in range(LINKS):
        if path not in links:
            break
        path = links[path]
    return path
