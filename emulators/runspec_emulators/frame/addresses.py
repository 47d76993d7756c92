"""Loopback addresses, each of which stands for one machine."""

from __future__ import annotations

import itertools
from collections import deque

MOST_NEW = 250


class Addresses:
    """Loopback addresses for nodes and children: 127.0.0.2 and on.

    Another machine has another address, so one that is free again is used when there are no new ones.
    """

    def __init__(self) -> None:
        self._free: deque[int] = deque()
        self._new = itertools.count(2)
        self._taken: set[int] = set()

    def take(self) -> str:
        old = len(self._taken) + len(self._free) >= MOST_NEW and self._free
        number = self._free.popleft() if old else next(self._new)
        self._taken.add(number)
        return f"127.0.{number // 256}.{number % 256}"

    def give_back(self, address: str) -> None:
        """Take back what was taken; no other address changes anything."""
        high, low = address.split(".")[2:]
        number = int(high) * 256 + int(low)
        if number in self._taken:
            self._taken.remove(number)
            self._free.append(number)
