"""A store that answers slowly: the timeout of a read begins again with each byte, so the reply has one, too."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from collections.abc import Iterator
from email.message import Message
from http.client import HTTPException, IncompleteRead
from typing import Any, Self, cast

import pytest

from runspec_agent.base import boot
from runspec_agent.base.job_env import Failure
from runspec_agent.store import ranged_read
from runspec_agent.store.ranged_read import Pace, RangedReader, whole


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Drip:
    """A reply of *size* bytes of which each read gets one after *pause_s*."""

    status, length = 200, 100_000

    def __init__(self, clock: Clock, pause_s: float, size: int = 100_000) -> None:
        self.clock, self.pause_s, self.length = clock, pause_s, size
        self.headers = Message()
        self.headers["ETag"], self.headers["Content-Length"] = "x", str(size)

    def read1(self, size: int) -> bytes:
        self.clock.now_s += self.pause_s
        return b"x"[:size]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(ranged_read, "Pace", lambda: Pace(found))
    return found


def test_a_reply_that_drips_has_an_end(clock: Clock) -> None:
    with pytest.raises(OSError, match="the store is too slow: it sent 121 bytes in 121 s"):
        whole(cast(Any, Drip(clock, 1.0)))


def test_a_file_that_drips_has_an_end(clock: Clock) -> None:
    reader = RangedReader("a", lambda _: cast(Any, Drip(clock, 1.0)))

    with pytest.raises(Failure, match="the store is too slow"):
        list(iter(reader.read, b""))


@contextlib.contextmanager
def dripping_server(begins: bytes) -> Iterator[str]:
    """Yield the address of a server that sends *begins* and then a byte now and then, for 5 seconds at the most."""
    until = time.monotonic() + 5

    def drip(listener: socket.socket) -> None:
        way, _ = listener.accept()
        with way, contextlib.suppress(OSError):
            way.sendall(begins)
            while time.monotonic() < until:
                way.sendall(b"x")
                time.sleep(0.02)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=[listener])
        thread.start()
        yield "{}:{}".format(*listener.getsockname())
        assert time.monotonic() < until - 1
        thread.join()


@pytest.mark.process
@pytest.mark.parametrize("begins", [b"HTTP/1.1 200 OK\r\n", b""])
def test_headers_that_drip_have_an_end(begins: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows how long the body of a reply is before its last header has come."""
    monkeypatch.setattr(boot, "HEADERS_S", 0.3)
    with dripping_server(begins) as address:
        link = boot.connection(False, address, 2.0)
        link.request("GET", "/")
        with pytest.raises((OSError, HTTPException)):
            link.getresponse()
        link.close()


@pytest.mark.process
@pytest.mark.parametrize("begins", [b"HTTP/1.1 200 OK\r\n", b""])
def test_a_proxy_whose_reply_to_connect_drips_is_left(
    begins: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "HEADERS_S", 0.3)
    with dripping_server(begins) as address:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{address}")
        link = boot.connection(True, "s3.eu-central-1.amazonaws.com", 2.0)
        with pytest.raises((OSError, HTTPException)):
            link.connect()
        link.close()


def test_a_reply_is_read_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose program has used up the limit of processes."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    near, far = socket.socketpair()
    with near, far:
        far.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        reply = boot.Reply(near)
        reply.begin()
        assert reply.read() == b"ok"


def test_a_slow_line_is_waited_for(clock: Clock) -> None:
    """Two kilobytes in a second take an hour and a half for ten megabytes."""
    assert len(whole(cast(Any, Drip(clock, 0.0005))).body) == 100_000


def test_an_incomplete_reply_is_no_answer() -> None:
    class Short(io.BytesIO):
        status, length, headers = 200, 10, Message()

    with pytest.raises(IncompleteRead):
        whole(cast(Any, Short(b"12345")))
