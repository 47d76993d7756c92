"""The network interfaces that NCCL and Gloo use between nodes."""

import socket
from typing import Dict, List, Optional

from runspec_agent.env import address

LOOPBACK = "lo"
# Interfaces by which no other node is reached: of containers and virtual machines, and of the metadata service of ECS.
APART = ("lo", "docker", "podman", "cni", "veth", "virbr", "ecs-")
INFINIBAND = "ib"


def variables(host: str, loopback: bool) -> Dict[str, str]:
    """Return the variables for a node that others reach at *host*; the settings of a program take precedence.

    *loopback* is whether all nodes are on one machine. Gloo would use the address of this machine's host name, which is
    often a loopback address, and needs the name of one interface. NCCL takes prefixes, of which `^` excludes all
    (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html); by itself it prefers interfaces of InfiniBand,
    so it is not told anything where there are some.
    """
    names = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
    if loopback:
        return dict.fromkeys((*names, "NCCL_SOCKET_IFNAME"), LOOPBACK)
    interface = address.interface(_numeric(host) or "") or _by_route(host)
    chosen = dict.fromkeys(names, interface) if interface is not None else {}
    nccl = _nccl(interface, [name for _, name in socket.if_nameindex()])
    return dict(chosen, NCCL_SOCKET_IFNAME=nccl) if nccl else chosen


def _nccl(interface: Optional[str], there: List[str]) -> Optional[str]:
    """Return the interfaces for NCCL, or None if it chooses well by itself.

    >>> _nccl("eth0", ["lo", "eth0", "docker0"])
    '^lo,docker,podman,cni,veth,virbr,ecs-'
    >>> _nccl("veth7", ["lo", "veth7"]), _nccl("eth0", ["lo", "eth0", "ib0"])
    ('=veth7', None)
    """
    if any(name.startswith(INFINIBAND) for name in there):
        return None
    if interface is not None and interface.startswith(APART):
        return "=" + interface
    return "^" + ",".join(APART)


def _numeric(host: str) -> Optional[str]:
    """Return the IPv4 address of *host*, or None."""
    try:
        return socket.gethostbyname(host)
    except (OSError, UnicodeError):
        return None


def _by_route(host: str) -> Optional[str]:
    """Return the interface of the default route for a *host* that is a name, which may not be that of an interface."""
    if ":" in host or _is_number(host):
        return None
    route = address.of_route()
    return None if route is None else address.interface(route)


def _is_number(host: str) -> bool:
    try:
        socket.inet_aton(host)
    except OSError:
        return False
    return True
