"""NCCL and Gloo use an interface by which other nodes are reached, unless the program has settings of its own."""

from __future__ import annotations

import socket

import pytest

from runspec_agent.env import address, sockets
from runspec_agent.launch import torchrun

ADDRESSES = {"10.0.0.7": "eth0", "172.17.0.9": "veth1", "10.9.9.9": "ib0"}
APART = "^lo,docker,podman,cni,veth,virbr,ecs-"


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"node-1": "10.0.0.7", "local": "127.0.1.1", **{each: each for each in ADDRESSES}}

    def by_name(host: str) -> str:
        if host not in names:
            raise socket.gaierror(host)
        return names[host]

    monkeypatch.setattr(socket, "gethostbyname", by_name)
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "docker0"), (3, "eth0")])
    monkeypatch.setattr(address, "interface", ADDRESSES.get)
    monkeypatch.setattr(address, "of_route", lambda: "10.0.0.7")


@pytest.mark.parametrize("host", ["10.0.0.7", "node-1", "local", "nobody-knows"])
def test_nodes_of_several_machines_do_not_use_loopback(host: str) -> None:
    """A node's own name may be unknown, or lead to loopback, as on Debian."""
    assert sockets.variables(host, loopback=False) == {
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": APART,
    }


@pytest.mark.parametrize("host", ["10.1.1.1", "fd00::7"])
def test_an_address_that_no_interface_has_is_left_to_gloo(host: str) -> None:
    """A container behind a bridge has such an address: another interface would be a guess."""
    assert sockets.variables(host, loopback=False) == {"NCCL_SOCKET_IFNAME": APART}


def test_nodes_of_one_machine_use_loopback() -> None:
    names = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")

    assert sockets.variables("127.0.0.2", loopback=True) == dict.fromkeys(names, "lo")


def test_an_interface_that_is_usually_apart_may_be_the_nodes_own() -> None:
    found = sockets.variables("172.17.0.9", loopback=False)

    assert found["NCCL_SOCKET_IFNAME"] == "=veth1"


def test_nccl_chooses_among_interfaces_of_infiniband_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0"), (3, "ib0")])

    assert "NCCL_SOCKET_IFNAME" not in sockets.variables("10.0.0.7", loopback=False)


def test_interface_variables_of_the_job_are_kept() -> None:
    env = {"NCCL_SOCKET_IFNAME": "=eth5", "GLOO_SOCKET_IFNAME": "eth6"}

    found = torchrun.env_for(env, "10.0.0.7", loopback=False)

    assert found == {
        **env,
        "TP_SOCKET_IFNAME": "eth0",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
