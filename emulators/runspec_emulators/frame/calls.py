"""Calls of a service: the record of them, and the socket on which they come and meet faults."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, Generic, TypeVar

from runspec_emulators.frame import listening
from runspec_emulators.frame.faults import Faults

State = TypeVar("State")


class Calls:
    """Every attempt to call a service, in order. No headers are kept."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._calls: list[dict[str, Any]] = []

    def add(self, service: str, operation: str, **kept: Any) -> dict[str, Any]:
        """Enter a call; its `outcome` is to be put in."""
        began = {"at": time.monotonic() - self._began, "outcome": None}
        entry = {"service": service, "operation": operation, **kept, **began}
        with self._lock:
            self._calls.append(entry)
        return entry

    def all(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._calls)


class Listener(listening.Listener, Generic[State]):
    """The socket of a service, whose calls are recorded and meet faults on request."""

    world: State
    """The state of the service, which is set before the listener begins."""

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler], faults: Faults) -> None:
        super().__init__((listening.HOST, port), handler)
        self.faults, self.calls = faults, Calls()
