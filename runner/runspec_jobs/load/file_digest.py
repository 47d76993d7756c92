"""Hashes files for the digest of a folder, and reads them again for the upload; large ones by several threads.

docs/agent.md says what the digest of a file is. `runspec_agent.transfer.untar` and `signed.sh` compute the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, cast

from runspec_jobs.errors import RunspecError
from runspec_jobs.provider import File
from runspec_jobs.provider.streams.object_streams import HashedPart

if TYPE_CHECKING:
    from concurrent.futures import Future

    from _typeshed import WriteableBuffer

CHUNK_BYTES = 1 << 20
PART_BYTES = 8 << 20  # part of every digest: another value would change all digests of larger files
AT_ONCE = 8  # parts of a file that is read for the upload, each of which is in memory

Tell = Callable[[int], None]


def count_cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def hash_content(file: io.FileIO, expected: int, tell: Tell) -> tuple[int, str]:
    """Return the size and the digest of *file*, and call *tell* with the bytes read so far.

    Of a growing file, at most one chunk more than *expected* bytes is read: its size is then above *expected*.
    """
    if expected > PART_BYTES:
        return _hash_parts(file, expected, tell)
    size, sha256 = 0, hashlib.sha256()
    while size <= expected and (data := file.read(CHUNK_BYTES)):
        size += len(data)
        sha256.update(data)
        tell(min(size, expected))
    return size, sha256.hexdigest()


def _hash_parts(file: io.FileIO, expected: int, tell: Tell) -> tuple[int, str]:
    # Only for large files, because importing it takes 5 ms.
    from concurrent.futures import ThreadPoolExecutor

    size, together = 0, hashlib.sha256()
    with ThreadPoolExecutor(count_cores()) as pool:
        for count, digest in pool.map(
            partial(_hash_part, file.fileno()), range(0, expected, PART_BYTES)
        ):
            size += count
            together.update(f"{digest}\n".encode())
            tell(size)
    # One byte more shows that the file has grown.
    return size + len(os.pread(file.fileno(), 1, expected)), together.hexdigest()


def _hash_part(fd: int, start: int) -> tuple[int, str]:
    at, sha256 = start, hashlib.sha256()
    while at < start + PART_BYTES:
        data = os.pread(fd, min(CHUNK_BYTES, start + PART_BYTES - at), at)
        if not data:
            break
        at += len(data)
        sha256.update(data)
    return at - start, sha256.hexdigest()


def open_checked(raw: io.FileIO, file: File, changed: RunspecError) -> BinaryIO:
    """Return a reader of *raw*, the content of *file*, which raises *changed* if it differs from what was hashed.

    A reader that reads exactly the expected number of bytes gets the error before the last of them.
    """
    if os.fstat(raw.fileno()).st_size != file.bytes:
        raw.close()
        raise changed
    if file.bytes > PART_BYTES:
        return cast(
            "BinaryIO", _PartReader(raw, file, changed)
        )  # the class has every method that callers use
    return io.BufferedReader(_Reader(raw, file, changed), CHUNK_BYTES)


class _Reader(io.RawIOBase):
    """Reads a file of one part."""

    def __init__(self, raw: io.FileIO, file: File, changed: RunspecError) -> None:
        self._raw, self._file, self._changed = raw, file, changed
        self._sha256, self._size = hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        count = self._raw.readinto(view) or 0
        self._sha256.update(view[:count])
        self._size += count
        done = self._size >= self._file.bytes or count == 0
        if done and (self._size, self._sha256.hexdigest()) != (self._file.bytes, self._file.sha256):
            raise self._changed
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _PartReader(io.RawIOBase):
    """Reads a larger file; threads read and hash the next parts in the meantime."""

    def __init__(self, raw: io.FileIO, file: File, changed: RunspecError) -> None:
        self._raw, self._file, self._changed = raw, file, changed
        self._together = hashlib.sha256()
        self._part, self._at = HashedPart(), 0
        threads = min(count_cores(), AT_ONCE)
        from concurrent.futures import ThreadPoolExecutor  # as above

        self._pool = ThreadPoolExecutor(threads)
        self._starts = iter(range(0, file.bytes, PART_BYTES))
        self._ahead: deque[Future[HashedPart]] = deque()
        self._free: deque[HashedPart] = deque()
        # One part more than threads, so that each thread has work while the reader takes a part.
        for _ in range(threads + 1):
            self._begin()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        """Return at most *size* bytes, and at most the rest of a part; for readers of parts a `HashedPart`."""
        if size is None or size < 0:
            return self.readall()
        if self._at == len(self._part) and self._ahead:
            self._part, self._at = self._take_next(), 0
        if self._at == 0 and size >= PART_BYTES:
            part, self._part = self._part, HashedPart()  # the caller may release this buffer
            return cast("bytes", part)  # the class has every method that callers use
        data = bytes(memoryview(self._part)[self._at : self._at + size])
        self._at += len(data)
        return data

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)  # no thread may read from a closed descriptor
        self._raw.close()
        super().close()

    def _begin(self) -> None:
        start = next(self._starts, None)
        if start is not None:
            size = min(PART_BYTES, self._file.bytes - start)
            self._ahead.append(self._pool.submit(self._read_part, start, size))

    def _take_next(self) -> HashedPart:
        """Return the next part. The digests of all parts are known before the last one is returned."""
        part = self._ahead.popleft().result()
        self._together.update(f"{part.sha256}\n".encode())
        self._begin()
        if not self._ahead:
            more = os.pread(self._raw.fileno(), 1, self._file.bytes)
            if more or self._together.hexdigest() != self._file.sha256:
                raise self._changed
        return part

    def _read_part(self, start: int, size: int) -> HashedPart:
        part, read = self._get_buffer(size), 0
        with memoryview(part) as view:
            while read < size and (
                count := os.preadv(self._raw.fileno(), [view[read:]], start + read)
            ):
                read += count
        if read < size:  # an empty part would look like the end of the file
            raise self._changed
        part.sha256 = hashlib.sha256(part).hexdigest()
        part.reader = self._free
        return part

    def _get_buffer(self, size: int) -> HashedPart:
        with contextlib.suppress(IndexError):
            # Buffers are used again, which saves a twentieth of the CPU time of an upload: see `HashedPart`.
            if len(part := self._free.pop()) == size:
                return part
        return HashedPart(size)
