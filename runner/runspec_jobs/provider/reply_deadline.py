"""Replies that do not drip for ever: a time limit for a whole reply, beside the timeouts of single reads.

A read timeout begins again with each byte, so a server or proxy that sends one byte a second would hold a command
for ever. Providers put a `TimedStream` below the responses of their SDKs.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

WHOLE_S = 60.0
"""How long a reply may make its reader wait in all, and 1 s longer for each LEAST_BYTES of it."""
LEAST_BYTES = 1024


class TimedStream(io.RawIOBase):
    """The bytes of *raw*, which come from the socket *connection*, by the *clock* `time.monotonic`.

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
        self._left_s -= self._clock() - begun - (count or 0) / LEAST_BYTES
        return count

    def close(self) -> None:
        super().close()
        self._raw.close()
