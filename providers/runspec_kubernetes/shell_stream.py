"""`python -P -m runspec_kubernetes.shell_stream [OPTION...] NAMESPACE POD -- WORD...`: run a command in a pod.

Its streams, its exit code and, with --tty, the terminal are those of this process. One thread does all, and never waits
to write while it could read: a command may read no more before its output is read.

https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import select
import signal
import ssl
import struct
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import websocket
from kubernetes.stream.ws_client import V5_CHANNEL_PROTOCOL, create_websocket
from websocket import ABNF

from runspec_jobs.provider import RunspecError, Unavailable
from runspec_kubernetes.errors import translated
from runspec_kubernetes.job import CONTAINER
from runspec_kubernetes.naming import collection
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.session import Session
from runspec_kubernetes.timing import CLOCK, DEFAULT

STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSED = 0, 1, 2, 3, 4, 255
PROTOCOL = "sec-websocket-protocol"  # version 5, since 1.30, can tell the end of the input
CHUNK_BYTES = 1 << 16
MOST_BYTES = 1 << 20  # of the input that wait to be sent


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="shell_stream", allow_abbrev=False)
    for option in ("--kubeconfig", "--context"):
        parser.add_argument(option)
    parser.add_argument("--tty", action="store_true")
    for word in ("namespace", "pod"):
        parser.add_argument(word)
    ours, words = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    asked = parser.parse_args(ours)
    options = KubernetesOptions(
        kubeconfig=asked.kubeconfig, context=asked.context, namespace=asked.namespace
    )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        stream = Stream(connect(options, asked.pod, words, terminal=asked.tty))
        with _raw_terminal(stream) if asked.tty else contextlib.nullcontext():
            return stream.carry()
    except RunspecError as exc:
        sys.stderr.write(f"runspec: {exc.message}\n")
        return exc.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return 128 + signal.SIGPIPE


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def connect(options: KubernetesOptions, pod: str, words: Sequence[str], *, terminal: bool) -> Any:
    """Return a websocket to *words* in *pod*. Raises the errors of `Client.call`, and Unavailable."""
    session = Session(options, DEFAULT, CLOCK)
    query = [("container", CONTAINER), ("stdin", "true"), ("stdout", "true")]
    query += [("tty" if terminal else "stderr", "true")]
    path = f"{collection(options.namespace, 'pods')}/{pod}/exec"
    url = session.url(path, [*query, *(("command", word) for word in words)])
    headers = {name.lower(): value for name, value in session.login().items()}
    what = f"enter {pod}"
    try:
        with translated(what):
            configuration = session.api.configuration
            return create_websocket(configuration, url.replace("http", "ws", 1), headers)  # type: ignore[no-untyped-call]
    except websocket.WebSocketBadStatusException as exc:
        said = (exc.resp_body or b"").decode(errors="replace")
        with contextlib.suppress(ValueError):
            said = json.loads(said)["message"]
        raise Unavailable(f"{what}: {said or exc}") from exc
    except websocket.WebSocketException as exc:
        raise Unavailable(f"{what}: {exc}") from exc


class Stream:
    """The streams of a command over a websocket."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.sock = connection, connection.sock
        self.unsent = bytearray()
        self.status: dict[str, Any] | None = None
        self.wake, self._waker = os.pipe()
        self._channel = STATUS

    def send(self, channel: int, data: bytes, kind: int = ABNF.OPCODE_BINARY) -> None:
        content = bytes([channel]) + data if kind == ABNF.OPCODE_BINARY else data
        self.unsent += ABNF.create_frame(content, kind).format()

    def resize(self, *_: object) -> None:
        """Have the terminal of the command get the size of this one; also called by a signal."""
        os.write(self._waker, b"s")

    def carry(self) -> int:
        """Carry data until the command has ended; return its exit code."""
        source = [sys.stdin.fileno()]
        while True:
            reads = [self.sock, self.wake, *(source if len(self.unsent) < MOST_BYTES else ())]
            wait_s = 0 if self._pending else DEFAULT.alive_s
            readable, writable, _ = select.select(
                reads, [self.sock] if self.unsent else [], [], wait_s
            )
            if self.wake in readable:
                os.read(self.wake, CHUNK_BYTES)
                self._send_size()
            if source and source[0] in readable:
                if data := os.read(source[0], CHUNK_BYTES):
                    self.send(STDIN, data)
                else:
                    source = []
                    if self.connection.getheaders().get(PROTOCOL) == V5_CHANNEL_PROTOCOL:
                        self.send(CLOSED, bytes([STDIN]))
            if writable:
                self._flush()
            if (self.sock in readable or self._pending) and not self._receive():
                return self._code()
            if not readable and not writable:
                self.send(0, b"", ABNF.OPCODE_PING)

    @property
    def _pending(self) -> bool:
        """Whether there is data that was decrypted, which select does not see."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def _flush(self) -> None:
        self.sock.setblocking(False)
        try:
            del self.unsent[: self.sock.send(self.unsent[:CHUNK_BYTES])]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError:  # what was said before the end is read next
            self.unsent.clear()
        finally:
            self.sock.setblocking(True)

    def _receive(self) -> bool:
        """Take one frame; return False at the end."""
        try:
            frame = self.connection.recv_frame()
        except (websocket.WebSocketException, OSError):
            return False
        data: bytes = frame.data
        if frame.opcode == ABNF.OPCODE_CLOSE:
            return False
        if frame.opcode == ABNF.OPCODE_PING:
            self.send(0, data, ABNF.OPCODE_PONG)
        elif frame.opcode in (ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT, ABNF.OPCODE_CONT) and data:
            if frame.opcode != ABNF.OPCODE_CONT:
                self._channel, data = data[0], data[1:]
            if self._channel in (STDOUT, STDERR):
                while data:
                    data = data[os.write(self._channel, data) :]
            elif self._channel == STATUS and data:
                with contextlib.suppress(ValueError):
                    self.status = json.loads(data)
        return True

    def _send_size(self) -> None:
        with contextlib.suppress(OSError):
            room = fcntl.ioctl(sys.stdin.fileno(), termios.TIOCGWINSZ, bytes(8))
            rows, columns, *_ = struct.unpack("HHHH", room)
            self.send(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    def _code(self) -> int:
        """Return the exit code in the Status of the command."""
        if self.status is None:
            raise Unavailable("the connection to the pod was closed")
        if self.status.get("status") == "Success":
            return 0
        for cause in self.status.get("details", {}).get("causes") or ():
            if cause.get("reason") == "ExitCode":
                return int(cause["message"])
        raise Unavailable(str(self.status.get("message") or "the command could not be started"))


@contextlib.contextmanager
def _raw_terminal(stream: Stream) -> Iterator[None]:
    """Have the command's terminal handle each key, Ctrl-C too, and know the size of this one."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    signal.signal(signal.SIGWINCH, stream.resize)
    stream.resize()
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
