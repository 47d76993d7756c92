"""The address of a node: what the service says, else the one that leads out of here."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPException
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_agent.base import boot
from runspec_agent.env import address
from tests.support.agent.breakable_stores import Way

OUT = "10.1.2.3"


@pytest.fixture
def service() -> Iterator[Way]:
    with Way("http://127.0.0.1:1") as found:
        yield found


@pytest.fixture(autouse=True)
def _way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test leaves this machine: the way out is a socket that says where it would go from."""

    class Out(socket.socket):
        def connect(self, place: Any) -> None:
            assert place == ("192.0.2.1", 9)

        def getsockname(self) -> Any:
            return (OUT, 1)

    through(monkeypatch, Out)


def through(monkeypatch: pytest.MonkeyPatch, kind: type[socket.socket]) -> None:
    names = {name: getattr(socket, name) for name in ("AF_INET", "SOCK_DGRAM", "gethostname")}
    monkeypatch.setattr(address, "socket", SimpleNamespace(socket=kind, **names))


def asked(service: Way, answer: Any, status: int = 200) -> str:
    service.answers["/v4/x"] = (
        status,
        answer if isinstance(answer, bytes) else json.dumps(answer).encode(),
    )
    return address.own({"ECS_CONTAINER_METADATA_URI_V4": service.url + "/v4/x"})


def test_an_address_in_the_environment_comes_first() -> None:
    """By a rehearsal, or by the user."""
    assert address.own({"RUNSPEC_HOST": "node-1"}) == "node-1"


@pytest.mark.process
def test_the_service_knows_the_containers_network(service: Way) -> None:
    """A gang's nodes have interfaces of their own."""
    found = {"Networks": [{"NetworkMode": "awsvpc", "IPv4Addresses": ["10.0.0.7", "10.0.0.8"]}]}

    assert asked(service, found) == "10.0.0.7"


@pytest.mark.process
@pytest.mark.parametrize(
    "answer",
    [
        {"Networks": [{"NetworkMode": "host", "IPv4Addresses": [""]}]},
        {"Networks": [{"NetworkMode": "host"}]},
        {"Networks": []},
        {"Networks": None},
        {},
        b"no json",
    ],
)
def test_in_the_machines_network_the_way_out_is_the_address(service: Way, answer: Any) -> None:
    """The service has none to tell there."""
    assert asked(service, answer) == OUT


@pytest.mark.process
@pytest.mark.parametrize("kind", ["500", "reset before"])
def test_a_service_that_fails_is_done_without(service: Way, kind: str) -> None:
    """It is asked once."""
    service.breaks(kind, times=9)

    assert asked(service, {}) == OUT

    assert len(service.calls) == 1


def test_an_answer_that_is_cut_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that does not come."""

    def fetch(url: str) -> bytes:
        raise HTTPException("cut")

    monkeypatch.setattr(boot, "fetch", fetch)

    assert address.own({"ECS_CONTAINER_METADATA_URI_V4": "http://x"}) == OUT


def test_a_machine_without_a_network_uses_its_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses to connect because this machine has no network."""

    class Nowhere(socket.socket):
        def connect(self, place: Any) -> None:
            raise OSError(101, "Network is unreachable")

    through(monkeypatch, Nowhere)

    assert address.own({}) == socket.gethostname()


NODES = {"RUNSPEC_NODE_NAMES": "node-a,node-b", "RUNSPEC_RANK": "1"}


def known(monkeypatch: pytest.MonkeyPatch, *hosts: str, own: str = "10.0.0.7") -> None:
    """Have node-b stand for *hosts*, while *own* and loopback are this machine's."""

    def resolved(name: str, *_: Any) -> list[Any]:
        assert name == "node-b"
        if not hosts:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", (host, 0)) for host in hosts]

    inside: Any = vars(address)["socket"]  # what stands in for the module
    monkeypatch.setattr(inside, "getaddrinfo", resolved, raising=False)
    monkeypatch.setattr(address, "here", lambda host: host == own or host.startswith("127."))


def test_a_node_that_the_service_names_has_the_address_of_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The way out may lead through a network that nodes do not talk by."""
    known(monkeypatch, "10.0.0.7")

    assert address.own(NODES) == "10.0.0.7"


@pytest.mark.parametrize("hosts", [(), ("127.0.1.1",), ("10.0.0.8",)])
def test_a_name_that_is_no_help_is_left(
    monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, ...]
) -> None:
    """It is not known, or is loopback to its own machine, or is another's."""
    known(monkeypatch, *hosts)

    assert address.own(NODES) == OUT


def test_a_node_without_a_route_uses_its_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of a cluster may have none."""

    class Nowhere(socket.socket):
        def connect(self, place: Any) -> None:
            raise OSError("Network is unreachable")

    through(monkeypatch, Nowhere)
    known(monkeypatch)

    assert address.own(NODES) == "node-b"
