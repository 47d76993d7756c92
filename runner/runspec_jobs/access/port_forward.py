"""Forwards a port of the loopback address of this machine to a port of a node."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from runspec_jobs.access.connections import Connector
from runspec_jobs.access.endpoints import End, Refused, Socket
from runspec_jobs.errors import RunspecError, UsageError
from runspec_jobs.provider.types import Address, Forward, Route

HERE = "127.0.0.1"
DRAIN_S = 5.0  # for the last data from the node
LEAVE_S = 2.0  # the time for connections to end after they were broken off
BACKLOG = 128
ASK_S = 5.0  # between two requests for another route


@dataclass
class Connection:
    """One connection: its end here, its end at the node, and whether the node has sent all its data."""

    here: Socket
    there: End | None = None
    answered: bool = False

    def cut(self) -> None:
        self.here.cut()
        if self.there is not None:
            self.there.cut()


class Tunnel:
    """Listens at `port` of the loopback address, and forwards each connection to the node.

    *ask* returns the route to the node, and may be called again by another thread; *tell* is called with messages for
    the user, once each. *local* is the port to listen at: 0 means any free port, and None the same number as at the
    node if it is free, or else any.
    """

    def __init__(
        self,
        port: int,
        local: int | None,
        ask: Callable[[], Route],
        tell: Callable[[str], None],
    ) -> None:
        """Start listening. Raises UsageError if *local* cannot be used, and the errors of *ask*."""
        self._asked = port
        self._ask, self._tell = ask, tell
        self._way = ask()
        self._doubted, self._asked_s = False, time.monotonic()
        self.listener = _listen(port, local, self._way)
        self.port: int = self.listener.getsockname()[1]
        self._dialler = Connector()
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._told = ""
        self._ended = False
        self.connections: list[Connection] = []
        self._spawn(self._accept)

    def _spawn(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                if self._ended:
                    return
                time.sleep(0.1)  # too many files are open: wait until connections end
                continue
            self._begin(sock)

    def _begin(self, sock: socket.socket) -> None:
        try:
            connection = Connection(Socket(sock))
        except OSError:  # the connection ended before it was set up
            sock.close()
            return
        self._spawn(lambda: self._serve(connection))

    def _serve(self, connection: Connection) -> None:
        """Forward one connection until it ends."""
        with self._lock:
            self.connections.append(connection)
        try:
            remote = self._reach()
            if remote is None:
                connection.cut()
                return
            connection.there = remote
            if self._ended:  # close() could not end this connection before it was registered
                connection.cut()
            back = self._spawn(lambda: self._send_back(connection, remote))
            copy_data(connection.here, remote)
            back.join()
            remote.close()
        finally:
            connection.here.close()
            with self._lock:
                self.connections.remove(connection)

    def _send_back(self, connection: Connection, remote: End) -> None:
        """Forward data from the node; a forwarding program does not report that no program listens at the node."""
        if copy_data(remote, connection.here):
            self._told = ""
        elif isinstance(self._way, Forward) and not self._ended:
            message = "a connection ended without data from the node: perhaps no program listens"
            self._say(f"{message} at port {self._asked} of the node yet; the tunnel stays open")
        connection.answered = True
        if self._ended:
            connection.here.close_reading()

    def _reach(self) -> End | None:
        """Connect to the node, or report the failure once and return None."""
        try:
            end = self._dialler.dial(self._get_route())
        except Refused:
            self._say(
                f"no program listens at port {self._asked} of the node yet; the tunnel stays open"
            )
        except RunspecError as exc:
            self._say(f"{exc.message}; the tunnel stays open")
        except OSError as exc:
            reason = (exc.strerror or str(exc)).lower()
            self._say(
                f"cannot reach port {self._asked} of the node: {reason}; the tunnel stays open"
            )
        else:
            if not isinstance(self._way, Forward):
                self._told = ""
            return end
        self._doubted = True
        return None

    def _get_route(self) -> Route:
        """Return the route; request it again after a failure, since a later attempt may run on another machine."""
        with self._asking:
            # Asking for a route is a request to the service, and each new connection would repeat it.
            if self._doubted and time.monotonic() > self._asked_s + ASK_S:
                self._asked_s = time.monotonic()
                self._way = self._ask()
                self._doubted = False
            return self._way

    def _say(self, message: str) -> None:
        with self._lock:
            # A browser retries many times a second, and the message is the same each time.
            fresh, self._told = message != self._told, message
        if fresh:
            self._tell(message)

    def close(self, drain_s: float = 0.0) -> None:
        """Accept no more connections, and give open ones *drain_s* seconds to end by themselves."""
        self._ended = True
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes up the thread in accept()
        self.listener.close()
        if drain_s:
            for connection in [
                connection for connection in list(self.connections) if connection.answered
            ]:
                connection.here.close_reading()
            self._await_open(time.monotonic() + drain_s)
        for connection in list(self.connections):
            connection.cut()
        self._dialler.close()
        self._await_open(time.monotonic() + LEAVE_S)

    def _await_open(self, until: float) -> None:
        while self.connections and time.monotonic() < until:
            time.sleep(0.01)


def copy_data(source: End, target: End) -> int:
    """Forward all data of *source* and its end, complete or broken off; return the number of bytes."""
    done = 0
    while True:
        try:
            data = source.read()
        except OSError:
            data = b""
        if not data:
            break
        try:
            target.write(data)
        except OSError:
            return done  # the target accepts no more data; the other direction goes on
        done += len(data)
    # A connection that broke off must not look like one that ended: the reader would take half a file for all of
    # it.
    if source.broken:
        target.cut()
    else:
        target.finish()
    return done


def _listen(port: int, local: int | None, route: Route) -> socket.socket:
    """Listen at *local*, but never at a port that a node on this machine uses itself."""
    # The tunnel of a job on this machine would take the port that the job itself listens at.
    same_machine = isinstance(route, Address) and _has_loopback(route.host)
    if local == port and same_machine:
        message = f"port {port} of this machine belongs to the node, which runs here"
        raise UsageError(message, f"choose another port; 0:{port} takes any free one")
    if local is None:
        with contextlib.suppress(OSError):
            return _bind(0 if same_machine else port)
        local = 0
    try:
        return _bind(local)
    except PermissionError as exc:
        message = f"port {local} of this machine needs privileges"
        raise UsageError(message, f"choose another port; 0:{port} takes any free one") from exc
    except OSError as exc:
        message = f"port {local} of this machine is in use"
        raise UsageError(message, f"choose another port; 0:{port} takes any free one") from exc


def _bind(port: int) -> socket.socket:
    return socket.create_server((HERE, port), backlog=BACKLOG)


def _has_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_ports(text: str) -> tuple[int | None, int]:
    """Return the local port, or None if it is missing, and the node's port of `[LOCAL:]PORT`.

    >>> parse_ports("8888"), parse_ports("9000:8888"), parse_ports(":8888")
    ((None, 8888), (9000, 8888), (0, 8888))
    """
    local, mark, port = text.rpartition(":")
    numbers = [_parse_port(part) for part in (local or "0", port)]
    if numbers[0] is None or not numbers[1]:
        raise UsageError(f"'{text}' is not a port", "write PORT or LOCAL:PORT, each up to 65535")
    return (numbers[0] if mark else None), numbers[1]


def _parse_port(text: str) -> int | None:
    plain = text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 1 << 16
    return int(text) if plain else None
