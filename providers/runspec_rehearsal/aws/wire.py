"""HTTP: one handler for both services, the control paths and the metadata of containers and machines."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, NamedTuple

from runspec_rehearsal.aws import control, faults, imds, models
from runspec_rehearsal.aws.errors import ServiceError
from runspec_rehearsal.aws.faults import Fault
from runspec_rehearsal.aws.models import Request

if TYPE_CHECKING:
    from runspec_rehearsal.aws.server import Listener

CONTENT_TYPES = {"batch": "application/json", "logs": "application/x-amz-json-1.1"}


class Calls:
    """Every attempt to call a service, in order."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._calls: list[dict[str, Any]] = []

    def add(self, request: Request) -> dict[str, Any]:
        """Enter a call; its `outcome` is to be put in."""
        entry = {
            "service": request.service,
            "operation": request.operation,
            "params": recorded(request),
            "at": time.monotonic() - self._began,
            "outcome": None,
        }
        with self._lock:
            self._calls.append(entry)
        return entry

    def all(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._calls)


def recorded(request: Request) -> dict[str, Any]:
    """Give what is kept of a call: of log events only the number, for there may be millions."""
    events = request.params.get("logEvents")
    if not isinstance(events, list):
        return request.params
    return {**request.params, "logEvents": len(events)}


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
        if self.path.startswith(control.PATHS):
            status, answer = control.answer(self.server, self.command, self.path, body)
            self.send(Reply(status, json.dumps(answer).encode(), {}))
            return
        if self.path.startswith(imds.PATH):
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = imds.answer(self.server.world, self.command, self.path, headers)
            self.send(Reply(status, text.encode(), {"Content-Type": "text/plain"}))
            return
        try:
            request = models.read(self.command, self.path, dict(self.headers.items()), body)
        except ServiceError as exc:
            self.send(refusal(exc, "logs" if "X-Amz-Target" in self.headers else "batch"))
            return
        self.call(request)

    do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - names of http.server

    def call(self, request: Request) -> None:
        entry = self.server.calls.add(request)
        fault = self.server.faults.meet(request.service, request.operation)
        entry["outcome"] = fault.kind if fault else None
        if fault and fault.kind == "reset-before":
            self.reset()
        elif fault and fault.kind in faults.BEFORE:
            self.send(refusal(faults.error(fault.kind), request.service))
        else:
            reply, outcome = self.done(request)
            entry["outcome"] = entry["outcome"] or outcome
            self.suffer(fault, reply, request.service)

    def done(self, request: Request) -> tuple[Reply, str]:
        """Have the service do what is asked, and say how it went."""
        share = self.server.world.settings.throttle_logs
        try:
            if request.operation == "GetLogEvents" and self.server.faults.throttled(share):
                raise ServiceError("ThrottlingException", "Rate exceeded")
            answer = self.server.world.answer(request)
        except ServiceError as exc:
            return refusal(exc, request.service), exc.code
        return Reply(200, json.dumps(answer).encode(), typed(request.service)), "ok"

    def suffer(self, fault: Fault | None, reply: Reply, service: str) -> None:
        """Send a reply, or what a fault makes of it."""
        kind = fault.kind if fault else None
        if kind == "error-after":
            self.send(refusal(faults.error("error-after"), service))
        elif kind == "reset-after":
            self.reset()
        elif fault and kind == "hang-after":
            time.sleep(fault.seconds)
            self.reset()
        elif kind == "truncated":
            self.send(Reply(200, reply.body[: len(reply.body) // 2], reply.headers))
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
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("x-amzn-RequestId", str(uuid.uuid4()))
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: `/_rehearsal/calls` tells what was called."""


def typed(service: str) -> dict[str, str]:
    return {"Content-Type": CONTENT_TYPES[service]}


def refusal(error: ServiceError, service: str) -> Reply:
    """Give an error as the protocol of the service has it: the code in a header, or in the body.

    https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html#operation-error-serialization
    """
    if service == "batch":
        body = {"message": error.message}
        headers = {**typed(service), "x-amzn-errortype": error.code}
        return Reply(error.status, json.dumps(body).encode(), headers)
    body = {"__type": error.code, "message": error.message}
    return Reply(error.status, json.dumps(body).encode(), typed(service))
