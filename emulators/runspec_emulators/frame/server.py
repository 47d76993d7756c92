"""An emulator as a server on the loopback interface."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Generic

from runspec_emulators.frame import control, listening
from runspec_emulators.frame.calls import Listener, State
from runspec_emulators.frame.handler import Handler, Reply
from runspec_emulators.frame.listening import HOST, Certificate, Closing


class Server(Closing, Generic[State]):
    """A running emulator."""

    def __init__(
        self,
        listener: Listener[State],
        world: Callable[[str], State],
        end: Callable[[State], None],
        certificate: Certificate | None = None,
    ) -> None:
        """Begin to listen, by https with a *certificate*.

        *world* makes the state of a service at a URL, and *end* ends every process of every job.
        """
        listener.encrypt(certificate)
        self._listener, self.url, self._certificate = listener, listener.url, certificate
        self._end = end
        self.world = listener.world = world(self.url)
        listener.begin()

    def control(self, method: str, path: str, value: Any = None) -> Any:
        """Send a request to a control path; return the answer."""
        return control.tell(self.url, method, path, value, self._certificate)

    def close(self) -> None:
        """Stop listening and end every process of every job. May be called twice."""
        if self._listener.end():
            self._end(self.world)


# Loopback addresses, each of which stands for one machine.


MOST_NEW = 250


class Addresses:
    """Loopback addresses for nodes and children: 127.0.0.2 and on.

    Another machine has another address, so one that is free again is used when there are no new ones.
    """

    def __init__(self) -> None:
        self._free: deque[int] = deque()
        self._new = itertools.count(2)
        self._taken: set[int] = set()

    def take(self) -> str:
        old = len(self._taken) + len(self._free) >= MOST_NEW and self._free
        number = self._free.popleft() if old else next(self._new)
        self._taken.add(number)
        return f"127.0.{number // 256}.{number % 256}"

    def give_back(self, address: str) -> None:
        """Take back what was taken; no other address changes anything."""
        high, low = address.split(".")[2:]
        number = int(high) * 256 + int(low)
        if number in self._taken:
            self._taken.remove(number)
            self._free.append(number)


# A small service on the loopback interface, whose calls are neither recorded nor meet faults.


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

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815
