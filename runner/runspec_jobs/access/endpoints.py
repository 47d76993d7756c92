"""The two streams of bytes of a connection: over a socket, or through a program that frames its output."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from typing import Protocol

HEAD = struct.Struct(">I")  # the header of a frame: see runspec_agent.job.port_relay
CHUNK_BYTES = 1 << 18
LEAVE_S = 1.0  # for a program to end after the connection has ended
LINGER = struct.pack("ii", 1, 0)  # close() resets the connection: socket(7)


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
        with contextlib.suppress(OSError):  # the other side has closed the connection already
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
                get_last_line(self._said.read())
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
        end_process(self._process)
        self._said.close()


@contextlib.contextmanager
def _note_refusals(end: End) -> Iterator[None]:
    try:
        yield
    except OSError:
        end.broken = True
        raise


def end_process(process: subprocess.Popen[bytes]) -> None:
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


def get_last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
