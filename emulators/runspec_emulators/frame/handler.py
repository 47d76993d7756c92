"""The HTTP of all emulators: it sends replies, records calls, and injects faults."""

from __future__ import annotations

import json
import re
import socket
import struct
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

from runspec_emulators import privacy
from runspec_emulators.frame import control, listening
from runspec_emulators.frame.calls import Listener
from runspec_emulators.frame.errors import InvalidResponse, ServiceError
from runspec_emulators.frame.faults import AFTER, Fault

NONE: Mapping[str, str] = MappingProxyType({})


class Reply(NamedTuple):
    """The reply to a request."""

    status: int
    body: bytes
    headers: Mapping[str, str] = NONE


def said(status: int, value: Any, headers: Mapping[str, str] = NONE) -> Reply:
    """Return a JSON value as a reply."""
    return Reply(status, json.dumps(value).encode(), headers)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body in one packet
    server: listening.Listener
    number: str | None = None
    """The header that numbers the replies."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def named(self) -> dict[str, str]:
        """Return the headers by their names in small letters."""
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

    def refused_page(self) -> bool:
        """Refuse a request that comes from a page of a browser; return whether it does."""
        why = privacy.refusal(self.named(), self.server.names)
        if why is not None:
            self.send(said(403, {"message": why}, {"Content-Type": "application/json"}))
        return why is not None

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the record of calls has what was asked, without secrets."""


class Serving(Handler, ABC):
    """One connection to a service that records its calls and injects faults."""

    server: Listener[Any]
    control_paths: ClassVar[control.Handlers]
    """The control paths of this emulator."""
    fault_errors: ClassVar[Mapping[str, ServiceError]]
    """The error of each kind of injected fault."""
    form_paths: ClassVar[re.Pattern[str] | None] = None
    """Paths that take forms. No other path takes what a form of a page can send."""

    def handle_any(self) -> None:
        body = self.body()
        if self.refused_page():
            return
        forms = self.form_paths is not None and self.form_paths.fullmatch(urlsplit(self.path).path)
        if not forms and body and privacy.FORMS.match(self.headers.get("Content-Type", "")):
            self.send(said(415, {"message": "no path takes this content type"}))
        elif self.path.startswith(control.PATH) and not privacy.has_key(self.named()):
            self.send(said(403, {"message": "the key of the rehearsal is missing"}))
        elif self.path.startswith(control.PATH):
            answer = control.answer(self.control_paths, self.server, self.command, self.path, body)
            self.send(said(*answer))
        else:
            self.handle_service(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - of http.server

    @abstractmethod
    def handle_service(self, body: bytes) -> None:
        """Answer a request that is not to a control path."""

    def call(
        self, service: str, operation: str, kept: Mapping[str, Any], done: Callable[[], Reply]
    ) -> None:
        """Answer a call with what *done* returns, or with a fault; record *kept* of it."""
        entry = self.server.calls.add(service, operation, **kept)
        fault = self.server.faults.meet(service, operation)
        if fault is None:
            reply, entry["outcome"] = self.outcome(service, done)
            self.send(reply)
        else:
            entry["outcome"] = fault.kind
            late = fault.kind in AFTER
            self.suffer(fault, service, self.outcome(service, done)[0] if late else None)

    def outcome(self, service: str, done: Callable[[], Reply]) -> tuple[Reply, str]:
        """Return the reply to a call, and what is recorded of its end."""
        try:
            return done(), "ok"
        except ServiceError as exc:
            return self.refusal(exc, service), exc.code
        except InvalidResponse as exc:
            wrong = f"the response of the emulator is none of the service's: {exc}"
            # 501 is a status after which no client asks again.
            return self.refusal(ServiceError(501, "EmulatorIsWrong", wrong), service), wrong

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

    def refused(self, fault: Fault, service: str) -> Reply:
        """Return the error that a fault is answered with."""
        return self.refusal(self.fault_errors[fault.kind], service)

    @abstractmethod
    def refusal(self, error: ServiceError, service: str) -> Reply:
        """Return an error as the protocol of the service has it."""

    def reset(self) -> None:
        """Close the connection so that the other side sees a reset. socket(7), SO_LINGER"""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
