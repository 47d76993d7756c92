"""A way to the object store that can be broken: between the job and moto's server or Azurite, on purpose."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Protocol, Self

import pytest

NEWLINE, INSTEAD = "%0A", "%E2%90%A4"  # moto's server does not know keys with the first
# Tests of what only an object store does: a folder takes no such keys.
OBJECTS = pytest.mark.parametrize(
    "kind", ["s3", pytest.param("blob", marks=pytest.mark.slow)], indirect=True
)
HOP = ("connection", "transfer-encoding", "content-length", "date", "server")


class Call(NamedTuple):
    method: str
    path: str  # and the query, but for a signature in it

    @property
    def lists(self) -> bool:
        return "list-type=2" in self.path or "comp=list&" in self.path


class Fault(NamedTuple):
    """What goes wrong with calls that *hits*: *kind* is a status, or "reset", "cut", "lost" or "silent"."""

    kind: str
    hits: Callable[[Call], bool]
    left: list[None]


class Hook(Protocol):
    def __call__(self, call: Call, *, before: bool) -> None: ...


class Way(ThreadingHTTPServer):
    """Hands requests on to *there*, writes them down, and breaks those it was told to."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, there: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.there = there.partition("//")[2]
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.hook: Hook | None = None
        self._idle, self._under_way = threading.Condition(), 0
        self.calls: list[Call] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.headers: list[dict[str, str]] = []
        self._faults: list[Fault] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.004,), daemon=True)
        self._thread.start()

    def breaks(self, kind: str, method: str = "", part: str = "", times: int = 1) -> None:
        """Break the next *times* calls of *method* whose path has *part* in it."""

        def hits(call: Call) -> bool:
            return method in ("", call.method) and part in call.path

        self._faults.append(Fault(kind, hits, [None] * times))

    @contextmanager
    def busy(self) -> Iterator[None]:
        with self._idle:
            self._under_way += 1
        try:
            yield
        finally:
            with self._idle:
                self._under_way -= 1
                self._idle.notify_all()

    def is_idle(self) -> None:
        """Wait until nothing is under way: who asked for it may be gone."""
        with self._idle:
            assert self._idle.wait_for(lambda: self._under_way == 0, 120)

    def told(self, call: Call, *, before: bool) -> None:
        """Have the hook know of a request that is about to be handed on, or has been answered."""
        hook = self.hook
        if hook is not None:
            hook(call, before=before)

    def mend(self) -> None:
        self._faults.clear()

    def fault(self, call: Call) -> str:
        for fault in self._faults:
            if fault.left and fault.hits(call):
                fault.left.pop()
                return fault.kind
        return ""

    def count(self, method: str, part: str = "") -> int:
        return sum(1 for call in self.calls if call.method == method and part in call.path)

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def __enter__(self) -> Self:
        return self

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever hangs up is expected here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Way

    def do(self) -> None:
        call = Call(self.command, re.sub(r"[?&]sp=\w+&.*", "", self.path))
        self.server.calls.append(call)
        with self.server.busy():
            self._done(call)

    def _done(self, call: Call) -> None:
        self.server.headers.append({k.lower(): v for k, v in self.headers.items()})
        kind = self.server.fault(call)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.told(call, before=True)
        if kind == "reset":
            self._reset()
        elif kind.isdecimal():
            self._answer(int(kind), b"<Error><Code>Told</Code></Error>", {})
        elif call.path in self.server.answers:
            self._answer(*self.server.answers[call.path], {})
        else:
            self._hand_on(kind, body)

    def _hand_on(self, kind: str, body: bytes) -> None:
        link = http.client.HTTPConnection(self.server.there, timeout=60)
        try:
            signed = "&sig=" in self.path  # by Azure, which takes no such key
            words = {**dict(self.headers), "": self.path}  # a copy has a key in its headers, too
            if not signed:
                words = {name: word.replace(NEWLINE, INSTEAD) for name, word in words.items()}
            link.request(self.command, words.pop(""), body, words)
            answer = link.getresponse()
            content = answer.read().replace(INSTEAD.encode(), NEWLINE.encode())
        finally:
            link.close()
        if kind == "lost":  # it has been done, and nobody hears of it
            self._reset()
            return
        self.server.told(Call(self.command, self.path), before=False)
        headers = {k: v for k, v in answer.getheaders() if k.lower() not in HOP}
        self._answer(answer.status, content, headers, len(content) // 2 if kind == "cut" else 0)

    def _answer(self, status: int, body: bytes, headers: dict[str, str], missing: int = 0) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) - missing])
        self.close_connection = True

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""


for name in "GET PUT POST DELETE HEAD".split():
    setattr(_Handler, f"do_{name}", _Handler.do)
