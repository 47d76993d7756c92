"""The content of an upload, as the SDK sends it: in pieces, and no more of them once the upload is given up.

urllib3 sends bytes by one call, which must then end within the timeout for connecting; each piece has that time for
itself. https://docs.python.org/3/library/socket.html#socket.socket.sendall
"""

from __future__ import annotations

import os
import threading

from runspec_jobs.provider import HashedPart

PIECE_BYTES = 1 << 18


class GivenUp(BaseException):
    """The upload was given up. No Exception, which the SDK would answer with another try."""


class Body:
    """A file-like object over *content*; reading it raises GivenUp once *given_up* is set.

    *sha256* is the digest of the content in hexadecimal, if it is known.
    """

    def __init__(self, content: bytes | bytearray, given_up: threading.Event | None = None) -> None:
        self.content, self.given_up = content, given_up
        self.sha256 = content.sha256 if isinstance(content, HashedPart) else None
        self._at = 0

    def __len__(self) -> int:
        return len(self.content)

    def read(self, size: int | None = -1) -> memoryview | bytes:
        """Return the next piece, whose size does not depend on *size*; b"" at the end."""
        if self.given_up is not None and self.given_up.is_set():
            raise GivenUp
        begin, self._at = self._at, min(self._at + PIECE_BYTES, len(self.content))
        return memoryview(self.content)[begin : self._at] if begin < self._at else b""

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self.content)}[whence]
        self._at = max(0, origin + offset)
        return self._at
