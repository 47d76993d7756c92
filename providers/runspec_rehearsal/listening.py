"""The socket of every stand-in: on the loopback interface, and hung up at its end."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import weakref
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

HOST = "127.0.0.1"


class Listener(ThreadingHTTPServer):
    """Gives each connection a thread; what its handlers need is put in by whoever makes it."""

    daemon_threads = True
    server_name = HOST
    block_on_close = False
    request_queue_size = 128

    def __init__(self, *given: Any) -> None:
        self.links: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        super().__init__(*given)
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}"

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
        self.links.add(link)
        return link, address

    def server_bind(self) -> None:
        """Bind, without asking for a name of the address, which may take long."""
        TCPServer.server_bind(self)
        self.server_port = self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where a client has gone away; that is what clients do."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)
