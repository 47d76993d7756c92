"""Writes folders as tars block by block, for object stores, and reads tars in ranges."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from runspec_agent.base import limits
from runspec_agent.base.light_typing import NamedTuple
from runspec_agent.store.manifest import LONGEST_NS, stays
from runspec_jobs.provider.streams.object_streams import RangedReader, ReadRange
from runspec_jobs.provider.types import Bundle, Progress

if TYPE_CHECKING:
    import tarfile

BLOCK_BYTES = 1 << 20  # size of one read: small files share a block, large files are skipped
READ_BYTES = 8 << 20  # size of a part of a digest, which is then not copied
ENTRY_BYTES = 4096  # bytes of a tar for each file, in addition to the content
STEPS = 1000  # names that are looked at to follow a link; more count as a cycle


NEWEST_S = 1 << 33  # a tar of POSIX holds no later time: in the year 2242
PERMISSIONS = 0o777


class Member(NamedTuple):
    """What is in a tar; *start* is the position of a file's content. The other fields are those of `OutputFile`."""

    path: str
    start: int
    bytes: int
    kind: Literal["file", "folder", "link", "lost"] = "file"
    target: str = ""
    mode: int | None = None
    mtime_ns: int | None = None


def list_members(read: ReadRange, size: int) -> Iterator[Member]:
    """Yield what is in a tar. A hard link is another file, and so is a link to a file, which also has a target.

    Members outside of the folder are skipped, because runspec never writes them. Links that lead out, and what is
    neither a file, a folder nor a link, are `lost`. Raises tarfile.TarError if it is not a tar.
    """
    import tarfile  # slow to import, and most commands read and write no tar

    class Header(tarfile.TarInfo):
        """A header whose size is not negative: Python 3.11 may read such a tar for ever (CVE-2025-8194)."""

        def _block(self, count: int) -> int:
            if count < 0:
                raise tarfile.ReadError("a size is negative")
            blocks: int = super()._block(count)  # type: ignore[misc] # it is private
            return blocks

    by_path: dict[str, Member] = {}
    stream = io.BufferedReader(RangedReader(read, end=size), BLOCK_BYTES)
    with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8", tarinfo=Header) as archive:
        for info in archive:
            path = posixpath.normpath(info.name)
            if path == "." or not _is_inside(path):
                continue
            member = _make_member(path, info)
            if info.islnk():
                # A hard link follows the file that it is equal to, so that file is known by now.
                same = by_path.get(posixpath.normpath(info.linkname))
                member = member._replace(kind="lost") if same is None else same._replace(path=path)
            # Of two members of one name, the later one counts, as it does for programs that unpack a tar.
            by_path.pop(path, None)
            by_path[path] = member
    files = {path: member for path, member in by_path.items() if member.kind == "file"}
    for path, member in by_path.items():
        end = files.get(_follow_link(path, by_path)) if member.kind == "link" else None
        yield member if end is None else end._replace(path=path, target=member.target)


def _make_member(path: str, info: tarfile.TarInfo) -> Member:
    mode, time_ns = info.mode & PERMISSIONS, int(info.mtime) * 10**9
    mtime_ns = time_ns if abs(time_ns) < LONGEST_NS else None  # os.utime takes no other
    if info.isreg():
        return Member(path, info.offset_data, info.size, "file", "", mode, mtime_ns)
    if info.isdir():
        return Member(path, 0, 0, "folder", "", mode, mtime_ns)
    if not info.issym():
        return Member(path, 0, 0, "lost", "it is neither a file, a folder nor a link")
    if stays(info.linkname, path) and not info.linkname.startswith("/"):
        return Member(path, 0, 0, "link", info.linkname, None, mtime_ns)
    return Member(path, 0, 0, "lost", f"a link to {info.linkname}, outside of the output")


def _is_inside(path: str) -> bool:
    return not path.startswith(("/", "../")) and path != ".."


def _follow_link(path: str, by_path: dict[str, Member]) -> str:
    """Return where the link at *path* leads; each folder of a target may be a link as well."""
    parts, done = path.split("/"), list[str]()
    for _ in range(STEPS):
        if not parts:
            break
        part = parts.pop(0)
        # Links are followed one name at a time: `a/../b` is not `b` if `a` is a link.
        if part == "..":
            del done[-1:]
        elif part not in ("", "."):
            member = by_path.get("/".join((*done, part)))
            if member is not None and member.kind == "link":
                parts = [*member.target.split("/"), *parts]
            else:
                done.append(part)
    return "/".join(done) if not parts else ""


def tar_bytes(bundle: Bundle) -> int:
    """Return an upper limit for the size of the tar of *bundle*, unless its paths are very long."""
    return sum(file.bytes for file in bundle.files) + ENTRY_BYTES * len(bundle.files)


def tar_blocks(bundle: Bundle, progress: Progress) -> Iterator[bytes]:
    """Yield the tar of *bundle*, block by block, and call *progress* with the bytes so far.

    Folders that are equal, with their dates, give equal tars. Raises Conflict if a file differs from what was hashed.
    """
    whole = sum(file.bytes for file in bundle.files)
    return join_blocks(make_pieces(bundle), progress, whole)


def make_pieces(bundle: Bundle) -> Iterator[bytes]:
    """Yield the tar without owners, in GNU's format, because busybox reads long names in no other."""
    import tarfile

    size = 0
    for entry in bundle.files:
        info = tarfile.TarInfo(entry.path)
        info.size, info.mode = entry.bytes, entry.permissions
        # Earlier and later dates break programs that unpack the tar in the job.
        info.mtime = min(max(entry.mtime_s, limits.OLDEST_MTIME_S), NEWEST_S)
        header, filling = info.tobuf(tarfile.GNU_FORMAT), bytes(-entry.bytes % tarfile.BLOCKSIZE)
        yield header
        with bundle.open(entry) as file:
            while block := file.read(READ_BYTES):  # read to the end, where the content is checked
                yield block
        yield filling
        size += len(header) + entry.bytes + len(filling)
    size += 2 * tarfile.BLOCKSIZE
    yield bytes(2 * tarfile.BLOCKSIZE + -size % tarfile.RECORDSIZE)


def join_blocks(pieces: Iterator[bytes], progress: Progress, whole: int) -> Iterator[bytes]:
    """Yield *pieces*, with small ones joined to blocks, and call *progress* with the bytes so far."""
    done = 0
    for block in _join_small(pieces):
        yield block
        done += len(block)
        progress(min(done, whole), whole)


def _join_small(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield *pieces* with small ones joined to blocks; large pieces are not copied."""
    block = bytearray()
    for piece in pieces:
        # A request for each small file would take longer than its data.
        if block and len(block) + len(piece) > BLOCK_BYTES:
            yield bytes(block)
            block.clear()
        if len(piece) < BLOCK_BYTES:
            block += piece
        else:
            yield piece
    yield bytes(block)
