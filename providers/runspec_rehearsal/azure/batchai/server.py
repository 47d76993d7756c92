"""The stand-in as a server on the loopback interface."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import weakref
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from runspec_rehearsal.aws.faults import Faults
from runspec_rehearsal.azure.batchai.settings import Settings
from runspec_rehearsal.azure.batchai.wire import Calls, Handler
from runspec_rehearsal.azure.batchai.world import World

HOST = "127.0.0.1"


class Listener(ThreadingHTTPServer):
    """The socket, and what its handlers need."""

    daemon_threads = True
    server_name = HOST
    block_on_close = False
    request_queue_size = 128
    world: World
    faults: Faults
    calls: Calls

    def __init__(self, *given: Any) -> None:
        self.links: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        super().__init__(*given)

    def get_request(self) -> tuple[socket.socket, Any]:
        link, address = super().get_request()
        self.links.add(link)
        return link, address

    def hang_up(self) -> None:
        """Close what clients keep open, so that nobody listens to them for ever."""
        for link in list(self.links):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        """Bind, without asking for a name of the address, which may take long."""
        TCPServer.server_bind(self)
        self.server_port = self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where a client has gone away; that is what clients do."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Server:
    """A running stand-in. `close` ends every process of every job."""

    def __init__(self, settings: Settings, port: int = 0) -> None:
        self._listener = Listener((HOST, port), Handler)
        self.url = f"http://{HOST}:{self._listener.server_address[1]}"
        self.world = World(settings, self.url)
        self._listener.world = self.world
        self._listener.faults = Faults(settings.seed)
        self._listener.calls = Calls()
        self._thread = threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Listen no more, and end every process of every job. May be called twice."""
        if self._thread.is_alive():
            self._listener.shutdown()
            self._thread.join()
            self._listener.server_close()
            self._listener.hang_up()
            self.world.close()
