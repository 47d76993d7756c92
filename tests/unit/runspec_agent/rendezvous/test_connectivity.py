"""Nodes find out whether they can talk, and say which pairs cannot, and why."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.base.process import Signals
from runspec_agent.rendezvous import connectivity
from runspec_agent.rendezvous.connectivity import Door, Reach, Seat, say, tried
from runspec_agent.rendezvous.shared_directory import Node
from runspec_agent.store.folder import FolderBucket
from tests.support.requirements import need, need_root

pytestmark = pytest.mark.process

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
TOKEN = "0" * 64


class Quiet(Signals):
    """No signal ever comes. The real ones can be had by the main thread alone."""

    def wait(self, seconds: float) -> list[int]:
        time.sleep(min(seconds, 0.02))
        return []


class Misled(FolderBucket):
    """Tells everybody that the second node listens where nobody does."""

    def put(self, key: str, content: bytes) -> None:
        folder, found, seat = key.partition("seats/1,")
        if found:
            _, token, host = seat.split(",")
            with socket.create_server((host, 0)) as free:
                seat = f"{free.getsockname()[1]},{token},{host}"
        super().put(folder + found + seat, content)


def together(folder: Path, kind: type[FolderBucket], hosts: Sequence[str]) -> list[int]:
    """Have all nodes try at the same time; give the code of each."""

    def one(rank: int) -> int:
        own = Reach(
            kind({"RUNSPEC_STORE": f"file://{folder}"}),
            "runs/r/reach/0/1/",
            Node(rank, hosts[rank], "", "", 0),
            len(hosts),
        )
        try:
            own.check(Quiet(), "the wall")
        except Failure as failure:
            return failure.code
        return 0

    with ThreadPoolExecutor(len(hosts)) as threads:
        return list(threads.map(one, range(len(hosts))))


def test_nodes_that_can_talk_go_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    codes = together(tmp_path, FolderBucket, HOSTS)

    assert codes == [0, 0, 0]
    assert capfd.readouterr().err == ""


def test_all_nodes_end_where_two_cannot_and_the_first_says_which(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    codes = together(tmp_path, Misled, HOSTS)

    assert codes == [68, 68, 68]
    first, second, rule = capfd.readouterr().err.splitlines()
    assert first.startswith("runspec: node 0 (127.0.0.1) -> node 1 (127.0.0.2) port ")
    assert second.startswith("runspec: node 2 (127.0.0.3) -> node 1 (127.0.0.2) port ")
    assert first.endswith(": refused")
    assert rule == "runspec: check: the wall"


def test_an_address_that_is_not_its_own_is_no_reason_for_a_node_to_be_silent(
    tmp_path: Path,
) -> None:
    """A container may be told the address of its machine. Who listens everywhere can be reached if anybody can."""
    door = Door("192.0.2.1")

    try:
        door.start()
        assert tried(Seat("127.0.0.1", door.seat.port, door.seat.token)) is None
    finally:
        door.close()


def test_a_client_without_the_token_gets_no_answer() -> None:
    door = Door("127.0.0.1")

    try:
        door.start()
        with socket.create_connection(("127.0.0.1", door.seat.port), 10) as way:
            way.sendall(b"0" * len(TOKEN))
            try:
                way.shutdown(socket.SHUT_WR)
                answer = way.recv(100)
            except OSError:  # it has hung up, and not read all of it
                answer = b""
        assert answer == b""
    finally:
        door.close()


def test_somebody_else_at_the_port_is_no_node() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            way, _ = server.accept()
            with way:
                way.recv(100)
                way.sendall(b"220 mail.example.org\r\n".ljust(len(TOKEN)))

        other = threading.Thread(target=answer, daemon=True)
        other.start()
        found = tried(Seat("127.0.0.1", server.getsockname()[1], TOKEN))
        other.join()

    assert found == "somebody else answers"


def test_silence_is_told_from_refusal() -> None:
    """Linux lets a connection wait for as long as the queue of the one who listens is full."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        place = full.getsockname()
        seat = Seat(place[0], place[1], TOKEN)
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(place)

        silent = tried(seat, 0.3)

        for one in waiting:
            one.close()
    assert silent == "timed out"
    assert tried(seat) == "refused"


def test_a_closed_network_does_not_fill_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    seats = [Seat(f"10.0.0.{rank}", 40000, TOKEN) for rank in range(12)]
    found = {rank: {o: "timed out" for o in range(12) if o != rank} for rank in range(12)}

    say(seats, found, 12 * 11, "")

    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == connectivity.SHOWN + 1
    assert lines[-1] == "runspec: and 32 more"


# What there is in the network of a test alone, beside its loopback.
RULES = """
set -e
ip link set lo up
ip route add unreachable 192.0.2.1
ip route add prohibit 192.0.2.2
iptables -A OUTPUT -d 127.0.0.3 -p tcp -j DROP
iptables -A OUTPUT -d 127.0.0.4 -p tcp -j REJECT --reject-with tcp-reset
iptables -A OUTPUT -d 127.0.0.5 -p tcp -j REJECT --reject-with icmp-host-prohibited
exec "$@"
"""
TRIES = """
import json, sys
from runspec_agent.rendezvous.connectivity import Door, Seat, tried

door = Door("")
door.start()
hosts = sys.argv[1:]
print(json.dumps({h: tried(Seat(h, door.seat.port, door.seat.token), 1.0) for h in hosts}))
"""
EXPECTED = {
    "127.0.0.2": None,
    "127.0.0.3": "timed out",
    "127.0.0.4": "refused",
    "127.0.0.5": "unreachable",
    "192.0.2.1": "unreachable",
    "192.0.2.2": "unreachable: prohibited",
    "198.51.100.1": "unreachable",
    "node-of-nobody.invalid": "its name is not known there",
}


@pytest.mark.root
def test_each_kind_of_rule_is_called_by_its_name() -> None:
    need_root()
    need("unshare", "ip", "iptables")
    line: list[Any] = ["unshare", "--net", "sh", "-c", RULES, "sh", sys.executable, "-c", TRIES]

    done = subprocess.run(
        [*line, *EXPECTED], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == EXPECTED
