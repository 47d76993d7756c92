"""A proxy on the loopback interface, in a process whose requests are counted or broken.

It stands between the process and the services, so that it sees what any library sends, also one that is no Python
(obstore), and breaks the wire itself and not what stands for it. The way here is `http_proxy`, which requests (and so
azure-core), urllib and obstore all go: URLs and signatures stay as they are.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

HOST = "127.0.0.1"
LONGEST_S = 60.0
OF_ONE_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "proxy-connection")


class Answer(NamedTuple):
    """What goes back; *cut* is how many bytes of the body are sent before the connection is reset."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    cut: int | None = None


class Reset(Exception):
    """The connection is to be reset."""


class Silence(Exception):
    """Nothing more is to come."""


Send = Callable[[], Answer]
Pass = Callable[[str, str, Send], Answer]


class Proxy(ThreadingHTTPServer):
    """Hands each request to *passing*: its method, its URL, and what sends it on."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, passing: Pass) -> None:
        self.passing = passing
        super().__init__((HOST, 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}"

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where somebody has hung up; that is what is tried here."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Proxy

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            answer = self.server.passing(self.command, self.path, lambda: self.sent_on(body))
        except Reset:
            self.reset()
        except Silence:
            self.connection.settimeout(LONGEST_S)
            with contextlib.suppress(OSError):
                self.connection.recv(1)  # nothing comes, until the other side has had enough
            self.close_connection = True
        else:
            self.answer(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - of http.server

    def sent_on(self, body: bytes) -> Answer:
        url = urlsplit(self.path)
        link = http.client.HTTPConnection(url.netloc, timeout=LONGEST_S)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in OF_ONE_HOP}
        headers |= (
            {"Content-Length": str(len(body))} if body or "Content-Length" in self.headers else {}
        )
        with contextlib.closing(link):
            link.request(self.command, url._replace(scheme="", netloc="").geturl(), body, headers)
            found = link.getresponse()
            return Answer(found.status, found.getheaders(), found.read())

    def answer(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        kept = [(k, v) for k, v in answer.headers if k.lower() not in OF_ONE_HOP]
        length = next((v for k, v in answer.headers if k.lower() == "content-length"), None)
        if self.command != "HEAD" or length is None:
            length = str(len(answer.body))
        for name, value in [*kept, ("Content-Length", length)]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body[: answer.cut])
        if answer.cut is not None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """Close the connection so that the other side sees a reset. socket(7), SO_LINGER"""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.shutdown(socket.SHUT_RD)
        self.rfile.close()
        self.wfile.close()
        self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
