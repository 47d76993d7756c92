"""A tunnel: every byte goes through, both ways and as it ended; what is not there yet is said."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runspec_jobs.access import endpoints, port_forward
from runspec_jobs.errors import Unavailable, UsageError
from runspec_jobs.provider.payload import pack_agent
from runspec_jobs.provider.types import Address, Forward, Route, StdioProxy
from tests.support.wait import until

pytestmark = pytest.mark.process

BODY = os.urandom(1 << 20) * 5
WAIT_S = 60.0
# What `ssh -N -L SOCKET:HOST:PORT` is: it hides that nothing listens, and says nothing to us.
LEADING = """
import socket, sys, threading
here = socket.socket(socket.AF_UNIX)
here.bind(sys.argv[1])
here.listen()
def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass
def serve(sock):
    try:
        there = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    except OSError:
        sock.close()
        return
    back = threading.Thread(target=pump, args=(there, sock))
    back.start()
    pump(sock, there)
    back.join()
    sock.close(), there.close()
while True:
    threading.Thread(target=serve, args=(here.accept()[0],), daemon=True).start()
"""
Serve = Callable[[socket.socket], None]


@contextlib.contextmanager
def serving(serve: Serve, port: int = 0) -> Iterator[int]:
    """Have *serve* answer each connection in a thread of its own."""
    with socket.create_server(("127.0.0.1", port)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    threading.Thread(target=answer, args=(sock,), daemon=True).start()

        def answer(sock: socket.socket) -> None:
            with sock, contextlib.suppress(OSError):
                serve(sock)

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def hashing(sock: socket.socket) -> None:
    """Read to the end, then say the digest of it, and as many bytes again."""
    seen = whole(sock)
    sock.sendall(hashlib.sha256(seen).digest() + seen[::-1])


def whole(sock: socket.socket) -> bytes:
    found = bytearray()
    while data := sock.recv(1 << 18):
        found += data
    return bytes(found)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture(params=["address", "relay", "relay of hosts", "forward"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], Route]:
    """Each way there is to a port of this machine."""
    (tmp_path / "inside.pyz").write_bytes(pack_agent())
    relay = (sys.executable, "-IS", str(tmp_path / "inside.pyz"), "relay", "127.0.0.1")
    ways: dict[str, Callable[[int], Route]] = {
        "address": lambda port: Address("127.0.0.1", port),
        "relay": lambda port: StdioProxy((*relay, str(port))),
        "relay of hosts": lambda port: StdioProxy((*relay[:-1], "127.0.0.2,127.0.0.1", str(port))),
        "forward": lambda port: Forward(
            (sys.executable, "-c", LEADING, "{socket}", "127.0.0.1", str(port))
        ),
    }
    return ways[request.param]


@contextlib.contextmanager
def tunnel(way: Route, port: int = 8888, local: int | None = 0) -> Iterator[port_forward.Tunnel]:
    told: list[str] = []
    opened = port_forward.Tunnel(port, local, lambda: way, told.append)
    opened.told = told  # type: ignore[attr-defined]
    try:
        yield opened
    finally:
        opened.close()


def connect(to: port_forward.Tunnel) -> socket.socket:
    return socket.create_connection(("127.0.0.1", to.port), timeout=WAIT_S)


def knock(to: port_forward.Tunnel) -> None:
    """Connect, and find nobody."""
    with contextlib.suppress(ConnectionResetError), connect(to) as sock:
        assert sock.recv(1) == b""


def said(to: port_forward.Tunnel) -> list[str]:
    return to.told  # type: ignore[attr-defined, no-any-return]


def test_every_byte_goes_through_both_ways_after_one_side_has_said_its_last(
    way: Callable[[int], Route],
) -> None:
    with serving(hashing) as port, tunnel(way(port)) as opened, connect(opened) as sock:
        sock.sendall(BODY)
        sock.shutdown(socket.SHUT_WR)

        answer = whole(sock)

    assert answer[:32] == hashlib.sha256(BODY).digest()
    assert answer[32:] == BODY[::-1]


def test_the_side_that_ends_first_may_still_be_told_something(way: Callable[[int], Route]) -> None:
    """The node ends its half at once, and goes on reading."""
    heard: list[bytes] = []

    def ends_first(sock: socket.socket) -> None:
        sock.sendall(b"that is all")
        sock.shutdown(socket.SHUT_WR)
        heard.append(whole(sock))

    with serving(ends_first) as port, tunnel(way(port)) as opened, connect(opened) as sock:
        assert whole(sock) == b"that is all"
        sock.sendall(BODY)
        sock.shutdown(socket.SHUT_WR)

        until(lambda: heard)

    assert heard == [BODY]


def test_connections_do_not_wait_for_each_other(way: Callable[[int], Route]) -> None:
    def echo(sock: socket.socket) -> None:
        while data := sock.recv(1 << 16):
            sock.sendall(data)

    with serving(echo) as port, tunnel(way(port)) as opened, contextlib.ExitStack() as stack:
        socks = [stack.enter_context(connect(opened)) for _ in range(5)]
        for number, sock in reversed(list(enumerate(socks))):
            sock.sendall(b"%d" % number)
            assert sock.recv(16) == b"%d" % number


@pytest.mark.parametrize("kind", ["address", "relay"])
def test_a_reset_by_the_node_reaches_the_client(tmp_path: Path, kind: str) -> None:
    """The node resets the connection in the middle of what it says."""

    def breaks(sock: socket.socket) -> None:
        sock.recv(1)
        sock.sendall(b"half of")
        time.sleep(0.2)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    (tmp_path / "inside.pyz").write_bytes(pack_agent())
    with serving(breaks) as port:
        relay = (sys.executable, "-IS", str(tmp_path / "inside.pyz"), "relay", "127.0.0.1")
        there: Route = (
            Address("127.0.0.1", port) if kind == "address" else StdioProxy((*relay, str(port)))
        )
        with tunnel(there) as opened, connect(opened) as sock:
            sock.sendall(b"?")
            assert sock.recv(7, socket.MSG_WAITALL) == b"half of"

            with pytest.raises(ConnectionResetError):
                sock.recv(1)


def test_a_tunnel_to_a_closed_port_warns_once_and_works_later(
    way: Callable[[int], Route],
) -> None:
    port = free_port()
    with tunnel(way(port), port) as opened:
        for _ in range(3):
            knock(opened)
        until(lambda: said(opened))
        assert len(said(opened)) == 1
        assert f"no program listens at port {port} of the node yet" in said(opened)[0]

        with serving(hashing, port), connect(opened) as sock:
            sock.shutdown(socket.SHUT_WR)
            assert whole(sock) == hashlib.sha256(b"").digest()


def test_a_route_that_fails_is_requested_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The node was tried again elsewhere."""
    monkeypatch.setattr(port_forward, "ASK_S", 0.0)
    with serving(hashing) as port:
        ways = iter([Address("127.0.0.1", free_port()), Address("127.0.0.1", port)])
        opened = port_forward.Tunnel(8888, 0, lambda: next(ways), lambda line: None)
        knock(opened)

        with connect(opened) as sock:
            sock.shutdown(socket.SHUT_WR)
            assert len(whole(sock)) == 32
        opened.close()


def test_a_node_that_does_not_run_any_more_is_said_and_the_tunnel_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(port_forward, "ASK_S", 0.0)
    told: list[str] = []
    asked: list[int] = []

    def ask() -> Route:
        asked.append(1)
        if len(asked) > 1:
            raise Unavailable("node 0 does not run")
        return Address("127.0.0.1", free_port())

    opened = port_forward.Tunnel(8888, 0, ask, told.append)
    for _ in range(3):
        knock(opened)
    until(lambda: len(asked) > 1)
    until(lambda: told[-1:] == ["node 0 does not run; the tunnel stays open"])
    opened.close()


@pytest.mark.parametrize("kind", [StdioProxy, Forward])
def test_a_program_that_does_not_work_is_quoted(kind: type[StdioProxy | Forward]) -> None:
    line = ("/bin/sh", "-c", "echo 'no such container' >&2; exit 125")
    with tunnel(kind(line)) as opened:
        knock(opened)

        until(lambda: said(opened))

    assert "no such container" in said(opened)[0]


@pytest.mark.parametrize("kind", [StdioProxy, Forward])
@pytest.mark.parametrize("connected", [True, False])
def test_programs_of_a_tunnel_end_with_it(
    tmp_path: Path, kind: type[StdioProxy | Forward], connected: bool
) -> None:
    mark = tmp_path / "pid"
    word = "ok" if connected else ""
    text = f"echo $$ > {mark}.new; mv {mark}.new {mark}; printf '\\000\\000\\000\\002{word}'"
    with tunnel(kind(("/bin/sh", "-c", f"{text}; exec sleep 600"))) as opened, connect(opened):
        until(mark.exists)
        began_s = time.monotonic()

        opened.close()

    until(lambda: not Path("/proc", mark.read_text().strip()).exists())
    assert time.monotonic() - began_s < WAIT_S / 2


def test_a_program_that_stays_does_not_outlive_a_runspec_that_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    text = f"echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 600"
    line = (
        "import sys, time; from runspec_jobs.access.connections import PersistentForward;"
        "from runspec_jobs.provider.types import Forward;"
        "kept = PersistentForward(Forward(('/bin/sh', '-c', sys.argv[1]))); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", line, text])
    try:
        until(mark.exists)
    finally:
        holder.kill()
        holder.wait()

    until(lambda: not Path("/proc", mark.read_text().strip()).exists())


def test_a_tunnel_listens_on_loopback_alone() -> None:
    with tunnel(Address("192.0.2.1", 8888)) as opened:
        assert opened.listener.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_in_use_is_an_error_where_it_was_named_and_else_another_is_taken() -> None:
    with serving(hashing) as port:
        with pytest.raises(UsageError, match=f"port {port} of this machine is in use"):
            port_forward.Tunnel(8888, port, lambda: Address("192.0.2.1", 8888), print)

        with tunnel(Address("192.0.2.1", port), port, None) as opened:
            assert opened.port != port


def test_the_nodes_own_port_is_the_first_choice_unless_the_node_runs_here() -> None:
    """There, whoever took it would keep the job from listening, or talk to himself."""
    port = free_port()
    with tunnel(Address("192.0.2.1", port), port, None) as opened:
        assert opened.port == port
    with tunnel(Address("127.0.0.2", port), port, None) as opened:
        assert opened.port != port
    with pytest.raises(UsageError, match="belongs to the node"):
        port_forward.Tunnel(port, port, lambda: Address("127.0.0.1", port), print)


def test_closing_a_tunnel_waits_for_the_last_data() -> None:
    def slowly(sock: socket.socket) -> None:
        sock.recv(1)
        time.sleep(0.3)
        sock.sendall(b"last words")

    with (
        serving(slowly) as port,
        tunnel(Address("127.0.0.1", port)) as opened,
        connect(opened) as sock,
    ):
        sock.sendall(b"?")
        time.sleep(0.1)
        began_s = time.monotonic()
        opened.close(WAIT_S)
        took_s = time.monotonic() - began_s

        assert whole(sock) == b"last words"
        assert took_s < WAIT_S / 2, "it waits for who has nothing to say"


def test_a_connection_that_never_ends_ends_with_the_tunnel() -> None:
    def silent(sock: socket.socket) -> None:
        sock.recv(1)

    with (
        serving(silent) as port,
        tunnel(Address("127.0.0.1", port)) as opened,
        connect(opened) as sock,
    ):
        until(lambda: any(one.there for one in opened.connections))
        opened.close()

        with pytest.raises(ConnectionResetError):
            sock.recv(1)


@pytest.mark.parametrize("text", ["", ":", "x", "0", "1:0", "65536", "1:2:3", "-1", "8888:", "²"])
def test_a_wrong_port_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a port"):
        port_forward.parse_ports(text)


def test_frames_are_those_that_are_spoken_inside() -> None:
    from runspec_agent.job import port_relay

    assert port_relay.HEAD.format == endpoints.HEAD.format
