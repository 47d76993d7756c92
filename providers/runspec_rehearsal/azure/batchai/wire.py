"""HTTP: one handler for ARM, the links to files, tokens and the control paths."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from runspec_rehearsal.aws.faults import Fault
from runspec_rehearsal.azure.batchai import control, faults, links, rules
from runspec_rehearsal.azure.batchai.answers import Answer
from runspec_rehearsal.azure.batchai.describe import public
from runspec_rehearsal.azure.batchai.errors import ServiceError
from runspec_rehearsal.azure.batchai.rules import Request

if TYPE_CHECKING:
    from runspec_rehearsal.azure.batchai.server import Listener

RESULT = re.compile(
    r"/subscriptions/[^/]+/providers/Microsoft\.BatchAI/locations/(?P<location>[^/]+)"
    r"/operationresults/(?P<number>[^/]+)",
    re.IGNORECASE,
)
IDENTITY = "/_identity/token"


class Calls:
    """Every attempt to call the service, in order. Secrets are left out."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._calls: list[dict[str, Any]] = []

    def add(self, request: Request) -> dict[str, Any]:
        """Enter a call; its `outcome` is to be put in."""
        entry = {
            "service": request.service,
            "operation": request.operation,
            "path": request.path,
            "query": request.query,
            "body": public(request.body),
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
        if self.path.startswith(control.PATH):
            status, value = control.answer(self.server, self.command, self.path, body)
            self.send(Reply(status, json.dumps(value).encode(), {}))
        elif self.path.startswith(links.PATH):
            self.call(Request("storage", "GetFile", {}, {}, None, self.path))
        elif urlsplit(self.path).path == IDENTITY:
            self.send(self.identity())
        else:
            self.arm(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - of http.server

    def arm(self, body: bytes) -> None:
        polled = RESULT.fullmatch(urlsplit(self.path).path)
        try:
            if polled and self.command == "GET":
                found = polled.groupdict()
                request = Request("batchai", "OperationResult", found, {}, None, self.path)
            else:
                request = rules.read(self.command, self.path, body)
        except ServiceError as exc:
            self.send(refusal(exc))
            return
        self.call(request)

    def call(self, request: Request) -> None:
        entry = self.server.calls.add(request)
        fault = self.server.faults.meet(request.service, request.operation)
        entry["outcome"] = fault.kind if fault else None
        if fault and fault.kind == "reset-before":
            self.reset()
        elif fault and fault.kind in faults.BEFORE:
            self.send(refusal(faults.error(fault.kind)))
        else:
            reply, outcome = self.done(request)
            entry["outcome"] = entry["outcome"] or outcome
            self.suffer(fault, reply)

    def done(self, request: Request) -> tuple[Reply, str]:
        """Have the service do what is asked, and say how it went."""
        world = self.server.world
        if request.service == "storage":
            ranged = self.headers.get("x-ms-range") or self.headers.get("Range")
            file = world.links.answer(request.target, ranged)
            return Reply(*file), str(file.status)
        try:
            world.authenticate(self.headers.get("Authorization"))
            if request.operation == "OperationResult":
                with world.lock:
                    retry = world.settings.retry_after_s
                    answer = world.operations.poll(**request.path, retry_after_s=retry)
            else:
                answer = world.answer(request)
        except ServiceError as exc:
            return refusal(exc), exc.code
        return told(answer), "ok"

    def identity(self) -> Reply:
        """Give a token, as the machines of App Service get theirs: azure-identity asks there.

        https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
        """
        world = self.server.world
        if self.headers.get("X-IDENTITY-HEADER") != world.identity:
            return Reply(401, b'{"error": "the secret is another"}', {})
        resource = parse_qs(urlsplit(self.path).query).get("resource", [""])[0]
        with world.lock:
            token, end = world.new_token()
        value = {
            "access_token": token,
            "expires_on": str(int(end)),
            "resource": resource,
            "token_type": "Bearer",
        }
        return Reply(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

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
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("x-ms-request-id", str(uuid.uuid4()))
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: `/_rehearsal/calls` tells what was called."""


def told(answer: Answer) -> Reply:
    body = b"" if answer.value is None else json.dumps(answer.value).encode()
    headers = {"Content-Type": "application/json; charset=utf-8", **answer.headers}
    return Reply(answer.status, body, headers if body else dict(answer.headers))


def refusal(error: ServiceError) -> Reply:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    if error.status == 429:
        headers["Retry-After"] = "0"
    return Reply(error.status, json.dumps(error.body()).encode(), headers)
