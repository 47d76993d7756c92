"""Connections to the agents of other nodes, whose loss shows sooner than missed heartbeats that an agent has ended.

Nothing is sent over them. A lost connection alone proves nothing, as the network may have failed. But if the agent's
machine then refuses a new connection to the port where it had accepted one, that process has ended: its port is bound
for as long as it lives. Without such a refusal, the lease decides.
"""

import contextlib
import errno
import os
import selectors
import socket
import threading
from typing import Callable, List, NamedTuple, Set, Tuple

Address = Tuple[str, int]
UNDER_WAY = (0, errno.EINPROGRESS, errno.EINTR)


class Peer(NamedTuple):
    """A connection to the node *who*; *is_open* once it has been made, *again* for one after another was lost."""

    who: str
    address: Address
    is_open: bool = False
    again: bool = False


class Peers(threading.Thread):
    """Listen for other agents, and watch the connections to those that `meet` was called for."""

    def __init__(self, host: str) -> None:
        """Listen at *host*, or at all addresses if that is none of this machine."""
        super().__init__(daemon=True, name="peers")
        self.told: Callable[[], None] = lambda: None  # called when an agent has ended
        self._ended: Set[str] = set()
        self._met: Set[str] = set()
        self._todo: List[Tuple[str, Address]] = []
        self._wakes, self._waker = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._listener = self._listening(host)
        self.port = self._listener.getsockname()[1] if self._listener is not None else 0
        self.heard: List[socket.socket] = []  # connections of others, which are kept open

    def meet(self, who: str, host: str, port: int) -> None:
        """Connect to the agent of *who*, once."""
        if port and who not in self._met:
            self._met.add(who)
            self._todo.append((who, (host, port)))
            os.write(self._waker, b"\0")

    def has_ended(self, who: str) -> bool:
        """Return whether the agent of *who* has certainly ended."""
        return who in self._ended

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._wakes:
                    os.read(self._wakes, 4096)
                elif key.fileobj is self._listener:
                    self._accept()
                else:
                    self._look(key.fileobj, key.data)  # type: ignore[arg-type] # all others are sockets
            while self._todo:
                who, address = self._todo.pop(0)
                self._connect(Peer(who, address))

    def _listening(self, host: str) -> "socket.socket | None":
        for own in (host, ""):
            with contextlib.suppress(OSError):
                family = socket.getaddrinfo(own or None, 0, type=socket.SOCK_STREAM)[0][0]
                listener = socket.socket(family if own else socket.AF_INET)
                listener.bind((own, 0))
                listener.listen(128)
                listener.setblocking(False)
                self._selector.register(listener, selectors.EVENT_READ)
                return listener
        return None

    def _accept(self) -> None:
        assert self._listener is not None, "BUG: nothing listens"
        with contextlib.suppress(OSError):
            self.heard.append(self._listener.accept()[0])

    def _connect(self, peer: Peer) -> None:
        try:
            family, kind, proto, _, address = socket.getaddrinfo(
                *peer.address, type=socket.SOCK_STREAM
            )[0]
            connection = socket.socket(family, kind, proto)
        except OSError:
            # The address is unknown or cannot be reached: the lease decides about this node.
            return
        connection.setblocking(False)
        code = connection.connect_ex(address)
        if code in UNDER_WAY:
            self._selector.register(connection, selectors.EVENT_WRITE, peer)
        else:
            self._failed(connection, peer, code)

    def _failed(self, connection: socket.socket, peer: Peer, code: int) -> None:
        connection.close()
        if peer.again and code == errno.ECONNREFUSED:
            self._ended.add(peer.who)
            self.told()

    def _look(self, connection: socket.socket, peer: Peer) -> None:
        if not peer.is_open:
            self._selector.unregister(connection)
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._failed(connection, peer, code)
            else:
                made = peer._replace(is_open=True)
                self._selector.register(connection, selectors.EVENT_READ, made)
            return
        try:
            lost = not connection.recv(1)
        except BlockingIOError:
            lost = False
        except OSError:
            lost = True
        if lost:
            self._selector.unregister(connection)
            connection.close()
            self._connect(peer._replace(is_open=False, again=True))
