"""A small service on the loopback interface, whose calls are neither recorded nor meet faults."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from runspec_emulators.frame import listening
from runspec_emulators.frame.handler import Handler, Reply
from runspec_emulators.frame.listening import HOST, Certificate, Closing


class Endpoint(Closing):
    """Begins to listen at the end of `__init__`, and so a subclass calls that last."""

    def __init__(self, certificate: Certificate | None = None, names: tuple[str, ...] = ()) -> None:
        """Talk https with a *certificate*. *names* are host names by which clients know it."""
        self._listener = _Listener((HOST, 0), _Handler)
        self._listener.names = names
        self._listener.endpoint = self
        self._listener.encrypt(certificate)
        self.url = self._listener.url
        self.port: int = self._listener.server_address[1]
        self._listener.begin()

    @abstractmethod
    def reply(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Answer a request; *headers* are by their names in lower case."""

    def close(self) -> None:
        self._listener.end()


class _Listener(listening.Listener):
    endpoint: Endpoint


class _Handler(Handler):
    server: _Listener

    def do_GET(self) -> None:  # noqa: N802 - a name of http.server
        body, endpoint = self.body(), self.server.endpoint
        if self.refused_page():
            return
        self.send(endpoint.reply(self.command, self.path, self.named(), body))

    do_POST = do_PUT = do_GET  # noqa: N815
