"""The address under which other nodes reach this one."""

import fcntl
import json
import random
import socket
import struct
from typing import Mapping, Optional

from runspec_agent.base.job_env import NODE_NAMES

SIOCGIFADDR = 0x8915
# What the system gives to whoever asks for any port: ip_local_port_range in ip(7).
GIVEN = "/proc/sys/net/ipv4/ip_local_port_range"
LOWEST, TRIES = 10000, 100


def own(env: Mapping[str, str]) -> str:
    """Return what ECS says of this container's network, what this node's name stands for, or where a way leads out.

    A service that names its nodes does it in `RUNSPEC_NODE_NAMES`.
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-response.html
    """
    if "RUNSPEC_HOST" in env:
        return env["RUNSPEC_HOST"]
    if "ECS_CONTAINER_METADATA_URI_V4" in env:
        address = _of_container(env["ECS_CONTAINER_METADATA_URI_V4"])
        if address is not None:
            return address
    called = name(env)
    address = _of_name(called)
    if address is not None:
        return address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("192.0.2.1", 9))  # nothing is sent; a documentation address, RFC 5737
        except OSError:  # there is none
            return called or socket.gethostname()
        return str(way.getsockname()[0])


def _of_container(url: str) -> Optional[str]:
    """Return what ECS says at *url*; None where it says nothing, and the way out will do."""
    from http.client import HTTPException

    from runspec_agent.base import boot

    try:
        found = json.loads(boot.fetch(url).decode())
        for network in found.get("Networks") or ():
            for address in network.get("IPv4Addresses") or ():
                if address:  # in the network of the machine it is ""
                    return str(address)
    except (OSError, ValueError, HTTPException):
        pass
    return None


def interface(host: str) -> Optional[str]:
    """Return the network interface that has the IPv4 address *host*; None where none has. netdevice(7)"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        for _, found in socket.if_nameindex():
            request = struct.pack("256s", found.encode()[:15])
            try:
                answer = fcntl.ioctl(way.fileno(), SIOCGIFADDR, request)
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(answer[20:24]) == host:
                return found
    return None


def free_port() -> int:
    """Return a port where nobody listens, and that the system gives to nobody else.

    A program listens there seconds later: by then, any connection may have taken one of those that the system gives.
    """
    first = _first_given()
    for _ in range(TRIES if first > LOWEST else 0):
        port = random.randrange(LOWEST, first)  # noqa: S311 - no secret
        if _is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _first_given() -> int:
    try:
        with open(GIVEN, encoding="ascii") as stream:
            return int(stream.read().split()[0])
    except (OSError, ValueError, IndexError):  # not on Linux
        return 0


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def name(env: Mapping[str, str]) -> str:
    """Return what the service calls this node; empty where it has named none."""
    names = env.get(NODE_NAMES, "").split(",")
    rank = int(env.get("RUNSPEC_RANK") or 0)
    return names[rank] if rank < len(names) else ""


def _of_name(called: str) -> Optional[str]:
    """Return the address that *called* stands for, if it is one of this machine: only such can be bound.

    Names of nodes are not always known to the resolver, and some machines know their own as loopback.
    """
    try:
        found = (
            socket.getaddrinfo(called, None, socket.AF_INET, socket.SOCK_DGRAM) if called else []
        )
    except (OSError, UnicodeError):
        return None
    for place in found:
        host = str(place[4][0])
        if not host.startswith("127.") and here(host):
            return host
    return None


def here(host: str) -> bool:
    """Say whether *host* is an address of this machine: only such can be bound."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.bind((host, 0))
        except OSError:
            return False
        return True
