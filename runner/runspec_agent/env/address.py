"""The address at which other nodes reach this one."""

import fcntl
import json
import socket
import struct
from typing import Mapping, Optional

from runspec_agent.base.job_env import NODE_NAMES

SIOCGIFADDR = 0x8915
# The range from which the system assigns ports: ip_local_port_range in ip(7).
GIVEN = "/proc/sys/net/ipv4/ip_local_port_range"
LOWEST, TRIES = 10000, 100


def own(env: Mapping[str, str]) -> str:
    """Return this node's address: from ECS, from its host name, or from the interface of the default route.

    A service that names its nodes sets `RUNSPEC_NODE_NAMES`.

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
    return of_route() or called or socket.gethostname()


def of_route() -> Optional[str]:
    """Return the address of the interface of the default route, or None if there is no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # no packet is sent; a documentation address, RFC 5737
        except OSError:
            return None
        return str(sock.getsockname()[0])


def _of_container(url: str) -> Optional[str]:
    """Return the address in the ECS metadata at *url*, or None if it has none."""
    from http.client import HTTPException

    from runspec_agent.base import boot

    try:
        metadata = json.loads(boot.fetch(url).decode())
        for network in metadata.get("Networks") or ():
            for address in network.get("IPv4Addresses") or ():
                if address:  # empty in the network mode `host`
                    return str(address)
    except (OSError, ValueError, HTTPException):  # not on ECS: the next way finds the address
        pass
    return None


def interface(host: str) -> Optional[str]:
    """Return the network interface with the IPv4 address *host*, or None. See netdevice(7)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, request)
            except OSError:  # the interface has no address
                continue
            if socket.inet_ntoa(answer[20:24]) == host:
                return name
    return None


def free_port() -> int:
    """Return a port that no program uses, outside the range from which the system assigns ports.

    The program binds the port seconds later; by then, any connection may have taken a port from that range.
    """
    import random  # it takes a millisecond, and most tasks need no port

    first = _first_given()
    for _ in range(TRIES if first > LOWEST else 0):
        port = random.randrange(LOWEST, first)  # noqa: S311 - not a secret
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
    """Return the service's name of this node; empty if it has none."""
    names = env.get(NODE_NAMES, "").split(",")
    rank = int(env.get("RUNSPEC_RANK") or 0)
    return names[rank] if rank < len(names) else ""


def _of_name(called: str) -> Optional[str]:
    """Return the address of the host name *called* if it is one of this machine: only such an address can be bound.

    Resolvers do not always know the names of nodes, and some machines resolve their own name to loopback.
    """
    try:
        addresses = (
            socket.getaddrinfo(called, None, socket.AF_INET, socket.SOCK_DGRAM) if called else []
        )
    except (OSError, UnicodeError):
        return None
    for entry in addresses:
        host = str(entry[4][0])
        if not host.startswith("127.") and here(host):
            return host
    return None


def here(host: str) -> bool:
    """Return whether *host* is an address of this machine: only such an address can be bound."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((host, 0))
        except OSError:  # EADDRNOTAVAIL: no interface of this machine has it
            return False
        return True
