"""The stand-in as a server on the loopback interface."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import secrets
import socket
import sys
import threading
import weakref
from collections.abc import Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Self

from runspec_rehearsal.azure.batch.auth import Doorman
from runspec_rehearsal.azure.batch.faults import Faults
from runspec_rehearsal.azure.batch.settings import Settings
from runspec_rehearsal.azure.batch.wire import Calls, Handler
from runspec_rehearsal.azure.batch.world import World

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
    doorman: Doorman

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


class AzureBatch:
    """A running account of Azure Batch below *folder*. `close` ends every process of every task."""

    def __init__(
        self,
        folder: Path,
        account: str = "rehearsal",
        key: str | None = None,
        port: int = 0,
        **settings: Any,
    ) -> None:
        """*key* is base64; without one, a new one is made. *settings*: see `Settings`."""
        self.account = account
        self.key = key or base64.b64encode(secrets.token_bytes(64)).decode()
        self.settings = Settings(Path(folder), account=account, key=self.key, **settings)
        self._listener = Listener((HOST, port), Handler)
        self.url = f"http://{HOST}:{self._listener.server_address[1]}"
        self.world = World(self.settings, self.url)
        self._listener.world = self.world
        self._listener.faults = Faults()
        self._listener.calls = Calls()
        self._listener.doorman = Doorman(self.settings)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()

    @property
    def env(self) -> Mapping[str, str]:
        """The variables that lead a client here: those that the Azure CLI has for Batch.

        https://learn.microsoft.com/en-us/azure/batch/batch-cli-get-started
        """
        return {
            "AZURE_BATCH_ACCOUNT": self.account,
            "AZURE_BATCH_ACCESS_KEY": self.key,
            "AZURE_BATCH_ENDPOINT": self.url,
        }

    def control(self, method: str, what: str, body: Any = None) -> Any:
        """Tell the stand-in something: see `runspec_rehearsal.azure.batch.control`."""
        link = http.client.HTTPConnection(self.url.partition("//")[2], timeout=30)
        with contextlib.closing(link):
            link.request(method, f"/_rehearsal/{what}", json.dumps(body))
            answer = link.getresponse()
            found = json.loads(answer.read())
        assert answer.status == 200, found
        return found

    def close(self) -> None:
        """Listen no more, and end every process of every task. May be called twice."""
        if self._thread.is_alive():
            self._listener.shutdown()
            self._thread.join()
            self._listener.server_close()
            self._listener.hang_up()
            self.world.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
