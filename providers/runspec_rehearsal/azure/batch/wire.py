"""HTTP: one handler for the service, for the endpoint of tokens and for the control paths."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from runspec_rehearsal.azure.batch import auth, control, faults, requests
from runspec_rehearsal.azure.batch.answers import Answer
from runspec_rehearsal.azure.batch.errors import ServiceError
from runspec_rehearsal.azure.batch.faults import Fault
from runspec_rehearsal.azure.batch.requests import Request

if TYPE_CHECKING:
    from runspec_rehearsal.azure.batch.server import Listener

JSON = "application/json;odata=minimalmetadata"


class Calls:
    """Every call of the service, in order."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._calls: list[dict[str, Any]] = []

    def add(self, operation: str, method: str, target: str, body: Any) -> dict[str, Any]:
        """Enter a call; its `outcome` is to be put in. No headers are kept."""
        entry = {
            "service": "batch",
            "operation": operation,
            "method": method,
            "path": urlsplit(target).path,
            "query": urlsplit(target).query,
            "body": body,
            "at": time.monotonic() - self._began,
            "outcome": None,
        }
        with self._lock:
            self._calls.append(entry)
        return entry

    def all(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._calls)


class Reply(NamedTuple):
    """What goes back."""

    status: int
    body: bytes
    headers: dict[str, str]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body in one packet
    server: Listener

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if path.startswith(control.PATH):
            status, answer = control.answer(self.server, self.command, path, body)
            self.send(Reply(status, json.dumps(answer).encode(), {}))
            return
        if auth.TOKEN_PATH.fullmatch(path) and self.command == "POST":
            status, said = self.server.doorman.answer(body)
            self.send(
                Reply(status, json.dumps(said).encode(), {"Content-Type": "application/json"})
            )
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            self.server.doorman.check(self.command, self.path, headers)
            request = requests.read(self.command, self.path, headers, body)
        except ServiceError as exc:
            self.send(refusal(exc))
            return
        self.call(request)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = handle_any  # noqa: N815 - names of http.server

    def call(self, request: Request) -> None:
        name = request.operation.name
        entry = self.server.calls.add(name, self.command, self.path, request.body)
        fault = self.server.faults.meet(name)
        entry["outcome"] = fault.kind if fault else None
        if fault and fault.kind == "reset-before":
            self.reset()
        elif fault and fault.kind in faults.BEFORE:
            self.send(refusal(faults.error(fault.kind), fault.seconds))
        else:
            reply, outcome = self.done(request)
            entry["outcome"] = entry["outcome"] or outcome
            self.suffer(fault, reply)

    def done(self, request: Request) -> tuple[Reply, str]:
        """Have the service do what is asked, and say how it went."""
        try:
            answer = self.server.world.answer(request)
        except ServiceError as exc:
            return refusal(exc), exc.code
        return replied(answer), "ok"

    def suffer(self, fault: Fault | None, reply: Reply) -> None:
        """Send a reply, or what a fault makes of it."""
        kind = fault.kind if fault else None
        if kind == "error-after":
            self.send(refusal(faults.error("error-after")))
        elif kind == "reset-after":
            self.reset()
        elif fault and kind == "hang-after":
            time.sleep(fault.seconds)
            self.reset()
        elif kind == "truncated":
            self.send(Reply(reply.status, reply.body[: len(reply.body) // 2], reply.headers))
        else:
            self.send(reply)

    def reset(self) -> None:
        """Close the connection so that the other side sees a reset. socket(7), SO_LINGER"""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()

    def send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        number = str(uuid.uuid4())
        for name, value in {"request-id": number, **reply.headers}.items():
            self.send_header(name, value)
        if "Content-Length" not in reply.headers:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: `/_rehearsal/calls` tells what was called."""


def replied(answer: Answer) -> Reply:
    if answer.value is None:
        return Reply(answer.status, b"", dict(answer.headers))
    if isinstance(answer.value, bytes):
        return Reply(answer.status, answer.value, dict(answer.headers))
    headers = {"Content-Type": JSON, **answer.headers}
    return Reply(answer.status, json.dumps(answer.value).encode(), headers)


def refusal(error: ServiceError, wait_s: float | None = None) -> Reply:
    """Give an error; 429 and 503 say when to come back.

    https://learn.microsoft.com/en-us/azure/batch/error-handling
    """
    headers = {"Content-Type": JSON}
    if wait_s is not None and error.status in (429, 503):
        headers["Retry-After"] = str(int(min(wait_s, 1)))
    if error.status == 401:
        headers["WWW-Authenticate"] = (
            'Bearer authorization_uri="", resource_id="https://batch.core.windows.net/"'
        )
    return Reply(error.status, json.dumps(error.body).encode(), headers)
