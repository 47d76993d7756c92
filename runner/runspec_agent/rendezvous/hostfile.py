"""The host file: the nodes and the number of slots of each, for mpirun and for the user's program."""

from typing import Iterable

from runspec_agent.base import files
from runspec_agent.rendezvous.shared_directory import Node


def text(nodes: Iterable[Node], slots: int) -> str:
    """Return the lines that Open MPI reads; MPICH gets its own format on the command line.

    >>> print(text([Node(0, "a", "", "", 0), Node(1, "b", "", "", 0)], 2), end="")
    a slots=2
    b slots=2
    """
    return "".join("{} slots={}\n".format(node.host, slots) for node in nodes)


def write(path: str, nodes: Iterable[Node], slots: int) -> None:
    files.write(path, text(nodes, slots).encode("utf-8"), 0o644)
