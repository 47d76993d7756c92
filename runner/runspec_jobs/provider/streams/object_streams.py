"""Binary files over objects of a store, read in ranges or from the body of one response, and parts of uploads.

Responses have a time limit for the whole of them: see `TimedStream`.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

BLOCK_BYTES = 1 << 20
WHOLE_S = 60.0
"""How long a reply may make its reader wait in all, and 1 s longer for each LEAST_BYTES of it."""
LEAST_BYTES = 1024

ReadRange = Callable[[int, int], bytes]
"""Returns the bytes from a start up to an end; fewer at the end of the object."""


class RangedReader(io.RawIOBase):
    """A file over an object that *read* returns in ranges, from *start* up to *end* or to the end of the object.

    Wrap it in `io.BufferedReader`, with a buffer of *block_bytes*, because each read is a request.
    """

    def __init__(
        self,
        read: ReadRange,
        start: int = 0,
        end: int | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._read, self._at, self._end, self._block_bytes = read, start, end, block_bytes
        self._over = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._end is not None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if self._end is None:
            raise io.UnsupportedOperation("the size of the object is not known")
        self._at = offset + (0, self._at, self._end)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readall(self) -> bytes:
        """Read everything in blocks of *block_bytes*, because io.RawIOBase would read blocks of 8 KiB."""
        parts = []
        while data := self.read(self._block_bytes):
            parts.append(data)
        return b"".join(parts)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # BufferedReader passes a memoryview
        count = len(buffer) if self._end is None else min(len(buffer), self._end - self._at)
        if count <= 0 or self._over:
            return 0
        data = self._read(self._at, self._at + count)
        buffer[: len(data)] = data
        self._at += len(data)
        # A short range is the end of an object of unknown size, so no request beyond it is needed.
        self._over = self._end is None and len(data) < count
        return len(data)


class Body(Protocol):
    """The body of a response, as SDKs return it."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class BodyReader(io.RawIOBase):
    """The body of a response as a file; each read happens inside the context that *translated* returns."""

    def __init__(self, body: Body, translated: Callable[[], AbstractContextManager[None]]) -> None:
        self._body, self._translated = body, translated

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # BufferedReader passes a memoryview
        with self._translated():
            data = bytes(self._body.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._body.close()
        super().close()


class TimedStream(io.RawIOBase):
    """The bytes of *raw*, which come from the socket *connection*, by the *clock* `time.monotonic`.

    A read timeout begins again with each byte, so a server that sends one byte a second would hold a command for
    ever. Providers put this below the responses of their SDKs.

    Raises TimeoutError once reads have waited for too long. Only the time within reads counts, so that a reader may
    take as long as it likes with what came.
    """

    def __init__(self, raw: Any, connection: Any, clock: Callable[[], float]) -> None:
        self._raw, self._connection, self._clock = raw, connection, clock
        self._left_s = WHOLE_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._left_s <= 0:
            raise TimeoutError("the reply came too slowly")
        usual_s = self._connection.gettimeout()
        begun = self._clock()
        self._connection.settimeout(min(usual_s or self._left_s, self._left_s))
        try:
            count: int | None = self._raw.readinto(buffer)
        finally:
            self._connection.settimeout(usual_s)
        # Each byte buys some time, so a large reply may take as long as its size justifies.
        self._left_s -= self._clock() - begun - (count or 0) / LEAST_BYTES
        return count

    def close(self) -> None:
        super().close()
        self._raw.close()


class HashedPart(bytearray):
    """Bytes that were read from a file, and must not be changed, with their SHA-256, in hexadecimal.

    They are no `bytes`, because those could only be made by a copy. `release` may be called once, when nothing uses
    them any more: their *reader* then reads another part into their memory, which saves a twentieth of the CPU time
    of an upload.
    """

    sha256: str
    reader: deque[HashedPart] | None = None

    def release(self) -> None:
        reader, self.reader = self.reader, None  # no cycle may keep the memory
        if reader is not None:
            reader.append(self)
