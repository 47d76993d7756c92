"""One HTTP server on loopback whose every reply a test chooses, down to the byte at which it breaks off."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

NONE: Mapping[str, str] = MappingProxyType({})


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in small letters
    body: bytes


class Reply(NamedTuple):
    """What goes back. Of the body, *sent* bytes are sent, where that is not None, and the connection is closed."""

    status: int
    headers: Mapping[str, str] = NONE
    body: bytes = b""
    sent: int | None = None


Answering = Callable[[Asked], Reply]
DROPPED = Reply(0)  # the connection is closed without an answer


class Server:
    """A server for as long as its `with` lasts; `answering` may be changed at any time.

    An exception of `answering` closes the connection and is kept in `wrong`. With *tls*, it speaks https.
    """

    def __init__(
        self, answering: Answering = lambda _: Reply(404), tls: ssl.SSLContext | None = None
    ) -> None:
        self.answering = answering
        self.tls = tls
        self.wrong: list[Exception] = []
        self.asked: list[Asked] = []

    def __enter__(self) -> Self:
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self) -> None:
                try:
                    outer._serve(self.rfile, self.connection)
                except OSError:
                    pass  # the client has left

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.socket.close()
        self._thread.join()

    def _serve(self, stream: Any, link: socket.socket) -> None:
        """Answer all requests of one connection; the handshake of TLS is made in its own thread."""
        if self.tls is None:
            while self._one(stream, link):
                pass
            return
        with self.tls.wrap_socket(link, server_side=True) as inner, inner.makefile("rb") as whole:
            while self._one(whole, inner):
                pass

    def _one(self, stream: Any, link: socket.socket) -> bool:
        asked = _read(stream, link)
        if asked is None:
            return False
        self.asked.append(asked)
        try:
            reply = self.answering(asked)
        except Exception as exc:  # noqa: BLE001 - it belongs to the test, which looks for it
            self.wrong.append(exc)
            return False
        if reply.status == 0:
            return False
        link.sendall(_written(reply, asked.method))
        return reply.sent is None and asked.headers.get("connection", "").lower() != "close"


def _read(stream: Any, link: socket.socket) -> Asked | None:
    line = stream.readline()
    if not line.strip():
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := stream.readline()) not in (b"\r\n", b"\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("expect", "").lower() == "100-continue":
        link.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = _body(stream, headers)
    split = urlsplit(target)
    query = dict(parse_qsl(split.query, keep_blank_values=True))
    return Asked(method, split.path, query, headers, body)


def _body(stream: Any, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        whole: bytes = stream.read(int(headers.get("content-length", 0)))
        return whole
    found = b""
    while size := int(stream.readline().partition(b";")[0], 16):
        found += stream.read(size)
        stream.readline()
    stream.readline()
    return found


def _written(reply: Reply, method: str) -> bytes:
    headers = {"Content-Length": str(len(reply.body)), **reply.headers}
    words = HTTPStatus(reply.status).phrase if reply.status in set(HTTPStatus) else "Other"
    lines = [f"HTTP/1.1 {reply.status} {words}", *(f"{k}: {v}" for k, v in headers.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if method == "HEAD" else head + reply.body[: reply.sent]
