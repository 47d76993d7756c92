"""The socket of every emulator: on the loopback interface, and hung up at its end."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from http.server import ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any, NamedTuple, Self

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a free port. Another program may take it before it is used."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


def connect(
    host: str, timeout_s: float, certificate: Certificate | None = None
) -> http.client.HTTPConnection:
    """Connect to "HOST:PORT", by https where it shows a *certificate*."""
    if certificate is None:
        return http.client.HTTPConnection(host, timeout=timeout_s)
    return http.client.HTTPSConnection(host, timeout=timeout_s, context=certificate.trusted())


class Closing(ABC):
    """Closed at the end of its with-statement."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Certificate(NamedTuple):
    """The certificate of a server, and the CA certificate that clients trust, as PEM files."""

    shown: Path
    key: Path
    authority: Path

    def trusted(self) -> ssl.SSLContext:
        """Return a context with which clients trust this certificate."""
        return ssl.create_default_context(cafile=self.authority)


class Listener(ThreadingHTTPServer):
    """Gives each connection a thread; what its handlers need is put in by whoever makes it."""

    daemon_threads = True
    server_name = HOST
    block_on_close = False
    request_queue_size = 128
    tls: ssl.SSLContext | None = None
    names: tuple[str, ...] = ()
    """Patterns of the host names by which clients know it, beside addresses: see `privacy`."""

    def __init__(self, *given: Any) -> None:
        self.links: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        super().__init__(*given)
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http{'s' * (self.tls is not None)}://{HOST}:{self.server_address[1]}"

    def encrypt(self, certificate: Certificate | None) -> None:
        """Talk https from now on; before anybody is told the URL."""
        if certificate is not None:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate.shown, certificate.key)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> bool:
        """Listen no more, and close what clients keep open; say whether it listened until now."""
        if not self._thread.is_alive():
            return False
        self.shutdown()
        self._thread.join()
        self.server_close()
        for link in list(self.links):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        return True

    def get_request(self) -> tuple[socket.socket, Any]:
        link, address = super().get_request()
        # The TLS handshake takes place in the connection's own thread, when it reads.
        if self.tls is not None:
            link = self.tls.wrap_socket(link, server_side=True, do_handshake_on_connect=False)
        self.links.add(link)
        return link, address

    def server_bind(self) -> None:
        """Bind, without asking for a name of the address, which may take long."""
        TCPServer.server_bind(self)
        self.server_port = self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing if a client has closed its connection, which is no error here."""
        if not isinstance(sys.exc_info()[1], ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)


def why_not(code: int | None, limit_s: float, said: str) -> str:
    """Return why a program does not answer: its exit *code*, or that it runs still, and the end of what it *said*.

    >>> why_not(None, 60.0, ""), why_not(1, 60.0, "no port")
    ('it did not answer within 60 s, so that this machine may be too busy', 'it ended with exit code 1: no port')
    """
    late = f"it did not answer within {limit_s:.0f} s, so that this machine may be too busy"
    why = late if code is None else f"it ended with exit code {code}"
    return f"{why}: {said[-500:].strip()}" if said.strip() else why
