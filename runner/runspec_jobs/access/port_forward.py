"""A port of a node on the loopback address of this machine: each connection there is one to the node."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from runspec_jobs.access.connections import Connector, End, Refused, Socket
from runspec_jobs.errors import RunspecError, UsageError
from runspec_jobs.provider import Address, Forward, Route

HERE = "127.0.0.1"
DRAIN_S = 5.0  # for what the node said last
LEAVE_S = 2.0  # for connections that were cut
BACKLOG = 128
ASK_S = 5.0  # between two questions for another way


@dataclass
class Connection:
    """One connection: its end here, its end at the node, and whether the node has said its last."""

    here: Socket
    there: End | None = None
    answered: bool = False

    def cut(self) -> None:
        self.here.cut()
        if self.there is not None:
            self.there.cut()


class Tunnel:
    """Listens at `port` of the loopback address, and leads each connection to the node.

    *ask* gives the way to it, and may be asked again by another thread; *tell* is told, once each, what a
    person should know. *local* is the port to listen at: None is the node's own where it is free, else
    any, and 0 is any.
    """

    def __init__(
        self,
        port: int,
        local: int | None,
        ask: Callable[[], Route],
        tell: Callable[[str], None],
    ) -> None:
        """Raises UsageError where *local* cannot be had, and what *ask* raises."""
        self._asked = port
        self._ask, self._tell = ask, tell
        self._way = ask()
        self._doubted, self._asked_s = False, time.monotonic()
        self._listener = _listen(port, local, self._way)
        self.port: int = self._listener.getsockname()[1]
        self._dialler = Connector()
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._told = ""
        self._ended = False
        self._open: list[Connection] = []
        self._spawn(self._accept)

    def _spawn(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._ended:
                    return
                time.sleep(0.1)  # too many files are open: those that end make room
                continue
            self._begin(sock)

    def _begin(self, sock: socket.socket) -> None:
        try:
            one = Connection(Socket(sock))
        except OSError:  # it was gone before it was there
            sock.close()
            return
        self._spawn(lambda: self._serve(one))

    def _serve(self, one: Connection) -> None:
        """Carry one connection to its end."""
        with self._lock:
            self._open.append(one)
        try:
            there = self._reach()
            if there is None:
                one.cut()
                return
            one.there = there
            if self._ended:  # it was not there to be cut
                one.cut()
            back = self._spawn(lambda: self._back(one, there))
            pump(one.here, there)
            back.join()
            there.close()
        finally:
            one.here.close()
            with self._lock:
                self._open.remove(one)

    def _back(self, one: Connection, there: End) -> None:
        """Pass on what the node says. A program that leads there hides that nothing listens."""
        if pump(there, one.here):
            self._told = ""
        elif isinstance(self._way, Forward) and not self._ended:
            what = "a connection ended before anything came of it: perhaps nothing listens"
            self._say(f"{what} at port {self._asked} of the node yet; this goes on")
        one.answered = True
        if self._ended:
            one.here.deafen()

    def _reach(self) -> End | None:
        """Connect to the node; where that fails, say so, once."""
        try:
            found = self._dialler.dial(self._current())
        except Refused:
            self._say(f"nothing listens at port {self._asked} of the node yet: this goes on")
        except RunspecError as exc:
            self._say(f"{exc.message}: this goes on")
        except OSError as exc:
            reason = (exc.strerror or str(exc)).lower()
            self._say(f"no way to port {self._asked} of the node: {reason}; this goes on")
        else:
            if not isinstance(self._way, Forward):
                self._told = ""
            return found
        self._doubted = True
        return None

    def _current(self) -> Route:
        """Give the way; after a failure it is asked for anew, since the node may have been tried again."""
        with self._asking:
            if self._doubted and time.monotonic() > self._asked_s + ASK_S:
                self._asked_s = time.monotonic()
                self._way = self._ask()
                self._doubted = False
            return self._way

    def _say(self, what: str) -> None:
        with self._lock:
            fresh, self._told = what != self._told, what
        if fresh:
            self._tell(what)

    def close(self, drain_s: float = 0.0) -> None:
        """Take no more connections; those that are open may end by themselves for *drain_s* seconds."""
        self._ended = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes up who accepts
        self._listener.close()
        if drain_s:
            for one in [one for one in list(self._open) if one.answered]:
                one.here.deafen()
            self._await_open(time.monotonic() + drain_s)
        for one in list(self._open):
            one.cut()
        self._dialler.close()
        self._await_open(time.monotonic() + LEAVE_S)

    def _await_open(self, until: float) -> None:
        while self._open and time.monotonic() < until:
            time.sleep(0.01)


def pump(source: End, target: End) -> int:
    """Pass on all that *source* says, and how it ends: well, or cut off. Give the bytes it was."""
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
            return done  # it takes no more; what it had still to say goes the other way
        done += len(data)
    if source.broken:
        target.cut()
    else:
        target.finish()
    return done


def _listen(port: int, local: int | None, way: Route) -> socket.socket:
    """Listen at *local*. A port that the node itself is to have on this machine is never taken."""
    same_machine = isinstance(way, Address) and _loopback(way.host)
    if local == port and same_machine:
        what = f"port {port} of this machine is the node's own: it runs here"
        raise UsageError(what, f"name another: 0:{port} is any that is free")
    if local is None:
        with contextlib.suppress(OSError):
            return _bound(0 if same_machine else port)
        local = 0
    try:
        return _bound(local)
    except PermissionError as exc:
        what = f"port {local} of this machine is not for everybody to take"
        raise UsageError(what, f"name another: 0:{port} is any that is free") from exc
    except OSError as exc:
        what = f"port {local} of this machine is in use"
        raise UsageError(what, f"name another: 0:{port} is any that is free") from exc


def _bound(port: int) -> socket.socket:
    return socket.create_server((HERE, port), backlog=BACKLOG)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def ports(text: str) -> tuple[int | None, int]:
    """Give the local port, None where none is named, and the node's, of `[LOCAL:]PORT`.

    >>> ports("8888"), ports("9000:8888"), ports(":8888")
    ((None, 8888), (9000, 8888), (0, 8888))
    """
    local, mark, port = text.rpartition(":")
    found = [_number(part) for part in (local or "0", port)]
    if found[0] is None or not found[1]:
        raise UsageError(f"'{text}' is no port", "write PORT or LOCAL:PORT, each up to 65535")
    return (found[0] if mark else None), found[1]


def _number(text: str) -> int | None:
    plain = text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 1 << 16
    return int(text) if plain else None
