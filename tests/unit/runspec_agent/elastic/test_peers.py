"""An agent that has ended is known at once; one that cannot be reached is not taken for one that has."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest

from runspec_agent.elastic.peers import Peers

pytestmark = pytest.mark.process
HOST = "127.0.0.1"


def wait_for(what: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def peers() -> Peers:
    made = Peers(HOST)
    made.start()
    return made


def agent() -> tuple[socket.socket, int]:
    listener = socket.create_server((HOST, 0))
    return listener, listener.getsockname()[1]


def test_an_agent_has_ended_when_its_port_is_refused(peers: Peers) -> None:
    listener, port = agent()
    told: list[bool] = []
    peers.told = lambda: told.append(peers.has_ended("a"))
    peers.meet("a", HOST, port)
    connection, _ = listener.accept()

    listener.close()
    connection.close()

    wait_for(lambda: told)
    assert told == [True]


def test_a_lost_connection_alone_proves_nothing(peers: Peers) -> None:
    """It is made again, and the end of the agent is noticed later, too."""
    listener, port = agent()
    peers.meet("a", HOST, port)
    for _ in range(3):
        listener.accept()[0].close()
    last, _ = listener.accept()
    assert not peers.has_ended("a")

    listener.close()
    last.close()

    wait_for(lambda: peers.has_ended("a"))


def test_a_port_that_never_answered_proves_nothing(peers: Peers) -> None:
    """A firewall may refuse connections in the name of an agent that lives."""
    listener, port = agent()
    listener.close()
    there, known = agent()

    peers.meet("refused", HOST, port)
    peers.meet("there", HOST, known)
    connection, _ = there.accept()  # later than the refusal
    there.close()
    connection.close()

    wait_for(lambda: peers.has_ended("there"))
    assert not peers.has_ended("refused")


def test_agents_meet(peers: Peers) -> None:
    """The other side accepts, and keeps the connection open."""
    other = Peers(HOST)
    other.start()

    peers.meet("other", HOST, other.port)

    wait_for(lambda: len(other.heard) == 1)
    assert not peers.has_ended("other")
