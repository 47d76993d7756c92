"""HTTP: one handler for the API, its streams and the control paths."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from runspec_emulators.frame import calls
from runspec_emulators.frame.errors import ServiceError
from runspec_emulators.frame.faults import Fault
from runspec_emulators.frame.handler import Reply, Serving, said
from runspec_emulators.kubernetes import service
from runspec_emulators.kubernetes.admin import HANDLERS
from runspec_emulators.kubernetes.api import access, discovery, requests
from runspec_emulators.kubernetes.api.requests import Request
from runspec_emulators.kubernetes.cluster import Cluster
from runspec_emulators.kubernetes.errors import FAULTS, status_of
from runspec_emulators.kubernetes.nodes.websocket import Socket, accept
from runspec_emulators.kubernetes.resources import SECRETS

JSON = {"Content-Type": "application/json"}
SERVICE = "kubernetes"


class Listener(calls.Listener[Cluster]):
    """The socket of the API server."""


class Streamed(Reply):
    """A reply whose body comes in parts; an empty part says that there is none yet."""

    parts: Iterator[bytes] = iter(())


class Upgraded(Reply):
    """A reply after which the connection is a websocket."""

    use: Callable[[Socket], None]
    protocol: str


class Handler(Serving):
    """One connection."""

    server: Listener
    control_paths = HANDLERS
    fault_errors = FAULTS

    def refused_page(self) -> bool:
        """A websocket of a client says an origin, as one of a page does; but no page has a token."""
        try:
            access.identify(self.server.world.settings, self.named())
        except ServiceError:
            return super().refused_page()
        return False

    def handle_service(self, body: bytes) -> None:
        cluster, headers = self.server.world, self.named()
        path = urlsplit(self.path).path
        try:
            user = access.identify(cluster.settings, headers)
            shown = discovery.answer(cluster.settings, path)
            if shown is not None:
                reply = (
                    Reply(200, shown.encode()) if isinstance(shown, str) else said(200, shown, JSON)
                )
                self.call(SERVICE, "discover", self.kept(), lambda: reply)
                return
            request = requests.read(self.command, self.path, headers, body, cluster.settings.kueue)
        except ServiceError as exc:
            self.send(self.refusal(exc, SERVICE))
            return
        kept = self.kept(request)
        self.call(SERVICE, request.operation, kept, partial(self.done, request, user))

    def kept(self, request: Request | None = None) -> dict[str, Any]:
        """Return what the record of calls has of a request; the body of a secret is not in it."""
        split = urlsplit(self.path)
        kept: dict[str, Any] = {"method": self.command, "path": split.path, "query": split.query}
        # Tests and `rehearse` show the record.
        if request is not None and request.resource is not SECRETS:
            try:
                kept["body"] = request.json() or None
            except ServiceError:
                kept["body"] = None
        return kept

    def done(self, request: Request, user: access.User) -> Reply:
        access.authorize(user, request)
        upgrades = request.headers.get("upgrade", "").lower() == "websocket"
        if request.sub in ("exec", "portforward"):
            # A websocket begins with GET: https://github.com/kubernetes/kubernetes/pull/134577
            access.authorize(user, request, "create")
            protocol, use = service.open_stream(self.server.world, request, upgrades)
            reply = Upgraded(101, b"")
            reply.use, reply.protocol = use, protocol
            return reply
        answer = service.answer(self.server.world, request, user)
        if isinstance(answer.value, Iterator):
            streamed = Streamed(answer.status, b"", {"Content-Type": answer.content_type})
            streamed.parts = answer.value
            return streamed
        if isinstance(answer.value, bytes):
            return Reply(answer.status, answer.value, {"Content-Type": answer.content_type})
        warnings = [f'299 - "{w}"'.replace("\n", " ") for w in self._quoted(request.warnings)]
        more = {"Warning": ", ".join(warnings)} if warnings else {}
        return said(answer.status, answer.value, {**JSON, **more})

    def _quoted(self, warnings: list[str]) -> list[str]:
        return [w.replace("\\", "\\\\").replace('"', '\\"') for w in warnings]

    def refusal(self, error: ServiceError, service: str) -> Reply:
        wait = (error.details.get("details") or {}).get("retryAfterSeconds")
        more = {"Retry-After": str(wait)} if wait and error.status == 429 else {}
        return said(error.status, status_of(error), {**JSON, **more})

    # Streams.

    def suffer(self, fault: Fault, service: str, reply: Reply | None) -> None:
        if isinstance(reply, Streamed) and fault.kind == "truncated":
            reply.parts = _cut(reply.parts)
            self.send(reply)
        elif isinstance(reply, Upgraded):
            self.reset()
        else:
            super().suffer(fault, service, reply)

    def send(self, reply: Reply) -> None:
        if isinstance(reply, Upgraded):
            self.close_connection = True
            accept(self, reply.protocol, reply.use)
        elif isinstance(reply, Streamed):
            self.stream(reply)
        else:
            super().send(reply)

    def stream(self, reply: Streamed) -> None:
        """Send the parts of a reply as they come, as chunks; stop when the client is gone."""
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()
        try:
            for part in reply.parts:
                if part:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                    self.wfile.flush()
                elif self.is_left():
                    self.close_connection = True
                    return
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        except ConnectionError:
            self.close_connection = True
        except _Cut:
            self.wfile.flush()
            self.reset()

    def is_left(self) -> bool:
        """Return whether the client has closed the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        if not readable:
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):  # a TLS socket cannot peek
            return True


class _Cut(Exception):
    """A stream is to break off."""


def _cut(parts: Iterator[bytes]) -> Iterator[bytes]:
    for part in parts:
        if part:
            yield part[: len(part) // 2]
            break
    raise _Cut
