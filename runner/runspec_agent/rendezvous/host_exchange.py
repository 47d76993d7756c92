"""Exchange host names and ports between nodes, for programs that start their processes themselves."""

import json
import time
from typing import Callable, Dict, List, Optional

from runspec_agent.base import limits
from runspec_agent.base.job_env import LOST, STOPPED, Failure
from runspec_agent.base.process import STOPS, Pace, Signals
from runspec_agent.rendezvous.shared_directory import Node
from runspec_agent.store.base import Bucket

ALL = "all"
LOOK_S = 5.0  # at most between two reads, since a thousand nodes may share the store
LOOKS = 200  # reads per second of all nodes together, at most


def call(
    bucket: Bucket,
    prefix: str,
    node: Node,
    nodes: int,
    signals: Signals,
    failed: Callable[[], Optional[int]],
) -> List[Node]:
    """Publish this node's address, wait for all nodes, and return them in the order of their ranks.

    The address is part of an object name, so the first node reads all of them with one list request.

    Raise Failure if some nodes do not join in time, if *failed* returns an exit code, or after a signal to stop.
    """
    bucket.put("{}{},{}".format(prefix, node.rank, node.host), b"")
    hosts = {node.rank: node.host}
    began, pace = time.monotonic(), Pace(looks_s(0.25, nodes), LOOK_S)
    while len(hosts) < nodes:
        if any(number in STOPS for number in signals.wait(pace.pause_s())):
            raise Failure("asked to stop before all nodes had joined", STOPPED)
        if time.monotonic() - began > limits.STORE_MEET_S:
            raise Failure(
                "not all of {} nodes joined within {:g} s".format(nodes, limits.STORE_MEET_S), LOST
            )
        code = failed()
        if code is not None:
            raise Failure("a node failed before all had joined", code)
        hosts = (
            _collected(bucket, prefix, hosts, nodes)
            if node.rank == 0
            else _read_hosts(bucket, prefix) or hosts
        )
    if node.rank == 0:
        listed = json.dumps([hosts[rank] for rank in sorted(hosts)])
        bucket.put(prefix + ALL, listed.encode("ascii"))
    return [Node(rank, hosts[rank], "", "", 0) for rank in sorted(hosts)]


def looks_s(first_s: float, nodes: int) -> float:
    """Return the seconds between reads, at first, when *nodes* nodes read."""
    return min(LOOK_S, max(first_s, nodes / LOOKS))


def _collected(bucket: Bucket, prefix: str, hosts: Dict[int, str], nodes: int) -> Dict[int, str]:
    """Return *hosts* with the nodes that have joined since."""
    collected = dict(hosts)
    for entry in bucket.listing(prefix):
        rank, _, host = entry.key[len(prefix) :].partition(",")
        if rank.isdigit() and int(rank) < nodes:
            collected.setdefault(int(rank), host)
    return collected


def _read_hosts(bucket: Bucket, prefix: str) -> Optional[Dict[int, str]]:
    """Return the list that the first node has written, or None."""
    content = bucket.get(prefix + ALL)
    return None if content is None else dict(enumerate(json.loads(content.decode("ascii"))))
