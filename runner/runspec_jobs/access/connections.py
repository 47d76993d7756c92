"""Connections to a port of a node over any route that a provider offers; each has two streams of bytes."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from runspec_jobs.provider import Address, Forward, Route, StdioProxy

HEAD = struct.Struct(">I")  # the header of a frame: see runspec_agent.job.port_relay
CHUNK_BYTES = 1 << 18
CONNECT_S = 15.0
LEAVE_S = 1.0  # for a program to end after the connection has ended
PAUSE_S = 0.02
LINGER = struct.pack("ii", 1, 0)  # close() resets the connection: socket(7)
# This shell ends the program when runspec ends, even if it is killed: the kernel closes the pipe that the shell reads.
KEEPER = """exec 3<&0
"$@" 3<&- </dev/null & program=$!
trap 'kill $program' TERM INT HUP
{ read -r _ <&3; kill $program; } 2>/dev/null & reader=$!
wait $program
kill $reader 2>/dev/null
"""


class Refused(OSError):
    """No program listens at the port."""


class End(Protocol):
    """One end of a connection. It is `broken` once one of its methods has raised OSError."""

    broken: bool

    def read(self) -> bytes:
        """Return the next bytes, or none at the end of the data. Raises OSError if the connection broke before."""

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """Close the writing direction; the other end can still send."""

    def cut(self) -> None:
        """Break the connection and wake up its readers, so that neither end takes the data for complete."""

    def close(self) -> None:
        """Release the connection; called when no thread uses it any more."""


class Socket:
    """A connection over a socket of this machine."""

    def __init__(self, sock: socket.socket) -> None:
        self.broken = False
        self._sock = sock
        sock.settimeout(None)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self) -> bytes:
        with _note_refusals(self):
            return self._sock.recv(CHUNK_BYTES)

    def write(self, data: bytes) -> None:
        with _note_refusals(self):
            self._sock.sendall(data)

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close_reading(self) -> None:
        """Close the reading direction, so that readers find the end of the data."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RD)

    def cut(self) -> None:
        self.broken = True
        with contextlib.suppress(OSError):
            if self._sock.family == socket.AF_UNIX:
                self._sock.shutdown(socket.SHUT_RDWR)
            else:
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
                self._sock.shutdown(
                    socket.SHUT_RD
                )  # this sends nothing; close() resets the connection

    def close(self) -> None:
        self._sock.close()


class Program:
    """A connection that a program carries over its standard input and output, in frames."""

    def __init__(self, argv: Sequence[str]) -> None:
        """Start the program; call `begin` next."""
        self.broken = False
        pipe = subprocess.PIPE
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with it
        self._process = subprocess.Popen(
            argv,
            stdin=pipe,
            stdout=pipe,
            stderr=self._said,
            bufsize=0,
            cwd="/",
            start_new_session=True,
        )

    def begin(self) -> None:
        """Wait until the program is connected.

        Raises Refused if no program listens at the port, and OSError with the reason if the connection fails.
        """
        try:
            self._await()
        except OSError:
            self.cut()
            self.close()
            raise

    def _await(self) -> None:
        try:
            first = self.read()
        except OSError as exc:
            self._said.seek(0)
            raise OSError(
                _get_last_line(self._said.read())
                or "the program that connects to the node ended at once"
            ) from exc
        if first == b"refused":
            raise Refused
        if first != b"ok":
            raise OSError(first.decode(errors="replace"))

    def read(self) -> bytes:
        with _note_refusals(self):
            (size,) = HEAD.unpack(self._read_exactly(HEAD.size))
            return self._read_exactly(size)

    def _read_exactly(self, size: int) -> bytes:
        assert self._process.stdout, "BUG: it was asked for"
        received = bytearray()
        while len(received) < size:
            data = self._process.stdout.read(size - len(received))
            if not data:
                raise ConnectionResetError("the program that connects to the node has ended")
            received += data
        return bytes(received)

    def write(self, data: bytes) -> None:
        assert self._process.stdin, "BUG: it was asked for"
        left = memoryview(HEAD.pack(len(data)) + data)
        with _note_refusals(self):
            while left:
                left = left[self._process.stdin.write(left) or 0 :]

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            self.write(b"")

    def cut(self) -> None:
        self.broken = True
        self._process.terminate()

    def close(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVE_S)
        _end(self._process)
        self._said.close()


class PersistentForward:
    """A program that keeps running and forwards connections from a socket of this machine."""

    def __init__(self, forward: Forward) -> None:
        self.way = forward
        self._closing = False
        self._folder = tempfile.TemporaryDirectory(
            prefix="runspec-"
        )  # has mode 0700; the path of a socket has at most 107 bytes
        self._path, self._said = Path(self._folder.name, "s"), Path(self._folder.name, "said")
        argv = [word.replace("{socket}", str(self._path)) for word in forward.argv]
        with self._said.open("wb") as stderr:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, "sh", *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd="/",  # never in the folder of a job file, like every program that runspec starts
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def dial(self) -> Socket:
        """Connect, and retry for a while, because a program that was just started may not listen yet."""
        until = time.monotonic() + CONNECT_S
        while True:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(str(self._path))
                return Socket(sock)
            except (FileNotFoundError, ConnectionRefusedError) as exc:
                sock.close()
                if self._closing or self.ended or time.monotonic() > until:
                    raise OSError(
                        self._explain() or "the program that connects to the node does not answer"
                    ) from exc
            time.sleep(PAUSE_S)

    def _explain(self) -> str:
        try:
            return _get_last_line(self._said.read_bytes())
        except FileNotFoundError:
            return ""

    def close(self) -> None:
        assert self._process.stdin, "BUG: it was asked for"
        self._closing = True
        self._process.stdin.close()  # the keeper then ends the program
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVE_S)
        _end(self._process)
        self._folder.cleanup()


class Connector:
    """Makes connections over routes, which may change; `close` ends the programs that routes keep running."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: PersistentForward | None = None
        self._beginning: set[Program] = set()

    def dial(self, route: Route) -> End:
        """Connect over *route*. Raises Refused if no program listens at the port, and OSError if the route fails."""
        match route:
            case Address(host, port):
                try:
                    return Socket(socket.create_connection((host, port), timeout=CONNECT_S))
                except ConnectionRefusedError as exc:
                    raise Refused from exc
            case StdioProxy(argv):
                return self._start(Program(argv))
            case Forward():
                return self._keep(route).dial()

    def _start(self, program: Program) -> Program:
        self._beginning.add(program)
        try:
            program.begin()
        finally:
            self._beginning.discard(program)
        return program

    def _keep(self, forward: Forward) -> PersistentForward:
        with self._lock:
            if self._kept is None or self._kept.way != forward or self._kept.ended:
                self._let_go()
                self._kept = PersistentForward(forward)
            return self._kept

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def close(self) -> None:
        for program in list(self._beginning):
            program.cut()
        with self._lock:
            self._let_go()


@contextlib.contextmanager
def _note_refusals(end: End) -> Iterator[None]:
    try:
        yield
    except OSError:
        end.broken = True
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """End *process*, which leads its own process group, and the rest of the group."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LEAVE_S)
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _get_last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
