"""Writes folders as tars block by block, for object stores, and reads tars in ranges."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterator
from typing import NamedTuple

from runspec_jobs.provider.object_streams import RangedReader, ReadRange
from runspec_jobs.provider.types import Bundle, Progress

BLOCK_BYTES = 1 << 20  # size of one read: small files share a block, large files are skipped
READ_BYTES = 8 << 20  # size of a part of a digest, which is then not copied
ENTRY_BYTES = 4096  # size of a tar for each file beside its content
LINKS = 8  # the longest chain of links; a longer one counts as a cycle


class Member(NamedTuple):
    """A file in a tar, and the position of its content."""

    path: str
    start: int
    bytes: int


def members(read: ReadRange, size: int) -> Iterator[Member]:
    """Yield the files of a tar; a link to a file in the tar counts as another file with its content.

    Members outside of the folder are skipped, because runspec never writes them. Raises tarfile.TarError
    if it is not a tar.
    """
    files: dict[str, Member] = {}
    links: dict[str, str] = {}
    stream = io.BufferedReader(RangedReader(read, end=size), BLOCK_BYTES)
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
    """Return an upper limit for the size of the tar of *bundle*, unless its paths are very long."""
    return sum(file.bytes for file in bundle.files) + ENTRY_BYTES * len(bundle.files)


def tar_blocks(bundle: Bundle, progress: Progress) -> Iterator[bytes]:
    """Yield the tar of *bundle*, block by block, and call *progress* with the bytes so far.

    Equal folders give equal tars. Raises Conflict if a file differs from what was hashed.
    """
    whole = sum(file.bytes for file in bundle.files)
    return blocks(pieces(bundle), progress, whole)


def pieces(bundle: Bundle) -> Iterator[bytes]:
    """Yield the tar without times and owners, in GNU's format, because busybox reads long names in no other."""
    size = 0
    for entry in bundle.files:
        info = tarfile.TarInfo(entry.path)
        info.size, info.mode = entry.bytes, 0o755 if entry.executable else 0o644
        header, filling = info.tobuf(tarfile.GNU_FORMAT), bytes(-entry.bytes % tarfile.BLOCKSIZE)
        yield header
        with bundle.open(entry) as file:
            while block := file.read(READ_BYTES):  # read to the end, where the content is checked
                yield block
        yield filling
        size += len(header) + entry.bytes + len(filling)
    size += 2 * tarfile.BLOCKSIZE
    yield bytes(2 * tarfile.BLOCKSIZE + -size % tarfile.RECORDSIZE)


def blocks(pieces: Iterator[bytes], progress: Progress, whole: int) -> Iterator[bytes]:
    """Yield *pieces*, with small ones joined to blocks, and call *progress* with the bytes so far."""
    done = 0
    for block in _joined(pieces):
        yield block
        done += len(block)
        progress(min(done, whole), whole)


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield *pieces* with small ones joined to blocks; large pieces are not copied."""
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
