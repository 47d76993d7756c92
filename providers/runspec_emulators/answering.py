"""HTTP as all stand-ins talk it: what goes back, the record of calls, the faults that they meet."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from types import MappingProxyType
from typing import Any, NamedTuple

from runspec_emulators import listening
from runspec_emulators.faults import AFTER, Fault, Faults

NONE: Mapping[str, str] = MappingProxyType({})


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


class Listener(listening.Listener):
    """The socket of a service that calls are on record of, and suffer faults on request."""

    def __init__(self, port: int, handler: type[Serving], faults: Faults) -> None:
        super().__init__((listening.HOST, port), handler)
        self.faults, self.calls = faults, Calls()


class Reply(NamedTuple):
    """What goes back."""

    status: int
    body: bytes
    headers: Mapping[str, str] = NONE


def said(status: int, value: Any, headers: Mapping[str, str] = NONE) -> Reply:
    """Give a JSON value as a reply."""
    return Reply(status, json.dumps(value).encode(), headers)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body in one packet
    number: str | None = None
    """The header that numbers the replies."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def named(self) -> dict[str, str]:
        """Give the headers by their names in small letters."""
        return {name.lower(): value for name, value in self.headers.items()}

    def send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        number = {self.number: str(uuid.uuid4())} if self.number else {}
        length = {"Content-Length": str(len(reply.body))}
        for name, value in {**number, **length, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: stand-ins tell what was asked, without secrets."""


class Serving(Handler, ABC):
    """One connection to a service whose calls are on record and meet faults."""

    server: Listener

    def call(
        self,
        service: str,
        operation: str,
        kept: Mapping[str, Any],
        done: Callable[[], tuple[Reply, str]],
    ) -> None:
        """Have a call *done*, of which *kept* goes on record, or what a fault makes of it."""
        entry = self.server.calls.add(service, operation, **kept)
        fault = self.server.faults.meet(service, operation)
        if fault is None:
            reply, entry["outcome"] = done()
            self.send(reply)
        else:
            entry["outcome"] = fault.kind
            self.suffer(fault, service, done()[0] if fault.kind in AFTER else None)

    def suffer(self, fault: Fault, service: str, reply: Reply | None) -> None:
        """Answer what the fault makes of the *reply*, if it was made."""
        if fault.kind == "hang-after":
            time.sleep(fault.seconds)
        if fault.kind in ("reset-before", "reset-after", "hang-after"):
            self.reset()
        elif reply and fault.kind == "truncated":
            self.send(reply._replace(body=reply.body[: len(reply.body) // 2]))
        else:
            self.send(self.refused(fault, service))

    @abstractmethod
    def refused(self, fault: Fault, service: str) -> Reply:
        """Give the error that a fault of this kind is answered with."""

    def reset(self) -> None:
        """Close the connection so that the other side sees a reset. socket(7), SO_LINGER"""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
