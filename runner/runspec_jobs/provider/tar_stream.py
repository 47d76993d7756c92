"""Folders as tars, which object stores take: sent block by block, and read again in ranges."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

from runspec_jobs.provider.types import Bundle, Progress

BLOCK_BYTES = 1 << 20  # read at once: small files lie in it together, large ones are skipped
ENTRY_BYTES = 4096  # of a tar for each file, beside its content
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


def tar_bytes(bundle: Bundle) -> int:
    """Give how large the tar of *bundle* is at most, but for very long paths."""
    return sum(file.bytes for file in bundle.files) + ENTRY_BYTES * len(bundle.files)


def tar_blocks(bundle: Bundle, progress: Progress) -> Iterator[bytes]:
    """Give the tar of *bundle*, block by block, and tell how far it is.

    Equal folders make equal tars. A file that is no longer what was hashed raises Conflict.
    """
    whole = sum(file.bytes for file in bundle.files)
    return blocks(pieces(bundle), progress, whole)


def pieces(bundle: Bundle) -> Iterator[bytes]:
    """Give the tar, with no time and no owner; in GNU's form, since busybox knows no other long names."""
    size = 0
    for entry in bundle.files:
        info = tarfile.TarInfo(entry.path)
        info.size, info.mode = entry.bytes, 0o755 if entry.executable else 0o644
        header, filling = info.tobuf(tarfile.GNU_FORMAT), bytes(-entry.bytes % tarfile.BLOCKSIZE)
        yield header
        with bundle.open(entry) as file:
            while block := file.read(BLOCK_BYTES):  # to the end: that is when it is checked
                yield block
        yield filling
        size += len(header) + entry.bytes + len(filling)
    size += 2 * tarfile.BLOCKSIZE
    yield bytes(2 * tarfile.BLOCKSIZE + -size % tarfile.RECORDSIZE)


def blocks(pieces: Iterator[bytes], progress: Progress, whole: int) -> Iterator[bytes]:
    """Give *pieces*, the small ones joined to blocks, and tell how far they are."""
    done = 0
    for block in _joined(pieces):
        yield block
        done += len(block)
        progress(min(done, whole), whole)


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What is large already is handed on and not copied."""
    block = bytearray()
    for piece in pieces:
        if block and len(block) + len(piece) > BLOCK_BYTES:
            yield bytes(block)
            block.clear()
        if len(piece) < BLOCK_BYTES:
            block += piece
        else:
            yield piece
    yield bytes(block)
