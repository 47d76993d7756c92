"""One HTTP server on loopback whose every reply a test chooses, down to the byte at which it breaks off."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

HOST = "127.0.0.1"
PATIENCE_S = 60.0  # how long a client may wait for a reply that never comes
NONE: Mapping[str, str] = MappingProxyType({})


class ReceivedRequest(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in small letters
    body: bytes
    # As they were sent: path and query, or the URL to a proxy; and the headers.
    target: str = ""
    written: Mapping[str, str] = NONE


class Reply(NamedTuple):
    """What goes back. Of the body, *sent* bytes are sent, where that is not None, and the connection is closed."""

    status: int
    headers: Mapping[str, str] = NONE
    body: bytes = b""
    sent: int | None = None


Answering = Callable[[ReceivedRequest], Reply]
# Three ways for a connection to end without a reply.
DROPPED = Reply(0)  # it is closed
RESET = Reply(-1)  # it is reset
SILENT = Reply(-2)  # nothing comes, until the client gives up


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128


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
        self.asked: list[ReceivedRequest] = []

    def start(self) -> Self:
        """Start to listen, in threads that end with the process."""
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self) -> None:
                with contextlib.suppress(OSError):  # the client has left
                    outer._serve(self.rfile, self.connection)

            def finish(self) -> None:
                with contextlib.suppress(OSError):
                    super().finish()

        self._listener = _Listener((HOST, 0), Handler)
        self.host = f"{HOST}:{self.port}"
        self.url = f"{'https' if self.tls else 'http'}://{self.host}"
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()
        return self

    @property
    def port(self) -> int:
        found: int = self._listener.server_address[1]
        return found

    def close(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

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
        request = _read(stream, link)
        if request is None:
            return False
        self.asked.append(request)
        try:
            reply = self.answering(request)
        except Exception as exc:  # noqa: BLE001 - it belongs to the test, which looks for it
            self.wrong.append(exc)
            return False
        if reply.status <= 0:
            _end(link, reply)
            return False
        link.sendall(_written(reply, request.method))
        return reply.sent is None and "close" not in (
            request.headers.get("connection", "").lower(),
            reply.headers.get("Connection", ""),
        )


def _end(link: socket.socket, how: Reply) -> None:
    if how == RESET:  # socket(7), SO_LINGER
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()
    elif how == SILENT:
        link.settimeout(PATIENCE_S)
        link.recv(1)


def _read(stream: Any, link: socket.socket) -> ReceivedRequest | None:
    line = stream.readline()
    if not line.strip():
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    written: dict[str, str] = {}
    while (line := stream.readline()) not in (b"\r\n", b"\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        written[name.strip()] = value.strip()
    headers = {name.lower(): value for name, value in written.items()}
    if headers.get("expect", "").lower() == "100-continue":
        link.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = _body(stream, headers)
    split = urlsplit(target)
    query = dict(parse_qsl(split.query, keep_blank_values=True))
    return ReceivedRequest(method, split.path, query, headers, body, target, written)


def _body(stream: Any, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        length = int(headers.get("content-length", 0))
        whole: bytes = stream.read(length)
        if len(whole) < length:
            raise ConnectionError("the client has left in the middle of its request")
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
