"""Things that happen later: one thread that calls them in order, under the lock of the world."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable


class Timers:
    """Calls functions when they are due. Nothing is called after `close`."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._changed = threading.Condition()
        self._count = itertools.count()
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def after(self, delay_s: float, what: Callable[[], None]) -> None:
        """Have *what* called after *delay_s*, with the lock held."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._count), what))
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (what := self._next()) is not None:
            with self._lock:
                what()

    def _next(self) -> Callable[[], None] | None:
        """Wait for what is due next; None when closed."""
        with self._changed:
            while not self._closed:
                wait_s = self._due[0][0] - time.monotonic() if self._due else None
                if wait_s is not None and wait_s <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait_s)
        return None
