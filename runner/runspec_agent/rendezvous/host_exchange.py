"""The roll of the nodes: who is where, for programs that start their processes themselves."""

import json
import time
from typing import Callable, Dict, List, Optional

from runspec_agent.base.job_env import LATE_S, LOST, STOPPED, Failure
from runspec_agent.base.process import STOPS, Pace, Signals
from runspec_agent.rendezvous.rendezvous import Node
from runspec_agent.store.base import Bucket

ALL = "all"
LOOK_S = 5.0  # at the most between two looks: a thousand nodes share the store
LOOKS = 200  # a second that all nodes together look at the most


def call(
    bucket: Bucket,
    prefix: str,
    node: Node,
    nodes: int,
    signals: Signals,
    failed: Callable[[], Optional[int]],
) -> List[Node]:
    """Tell the others where this node is, and wait for all; return them in the order of their ranks.

    A name tells it: the first node has all in one list, however many they are.

    Raise Failure when some do not come, when *failed* gives the code of one, or when we are asked to stop.
    """
    bucket.put("{}{},{}".format(prefix, node.rank, node.host), b"")
    hosts = {node.rank: node.host}
    began, pace = time.monotonic(), Pace(looks_s(0.25, nodes), LOOK_S)
    while len(hosts) < nodes:
        if any(number in STOPS for number in signals.wait(pace.pause_s())):
            raise Failure("asked to stop before all nodes had come", STOPPED)
        if time.monotonic() - began > LATE_S:
            raise Failure("not all of {} nodes came within {:g} s".format(nodes, LATE_S), LOST)
        code = failed()
        if code is not None:
            raise Failure("a node failed before all had come", code)
        hosts = (
            _collected(bucket, prefix, hosts, nodes)
            if node.rank == 0
            else _told(bucket, prefix) or hosts
        )
    if node.rank == 0:
        listed = json.dumps([hosts[rank] for rank in sorted(hosts)])
        bucket.put(prefix + ALL, listed.encode("ascii"))
    return [Node(rank, hosts[rank], "", "", 0) for rank in sorted(hosts)]


def looks_s(first_s: float, nodes: int) -> float:
    """Return how long to wait at first before looking again, when as many as *nodes* do so."""
    return min(LOOK_S, max(first_s, nodes / LOOKS))


def _collected(bucket: Bucket, prefix: str, hosts: Dict[int, str], nodes: int) -> Dict[int, str]:
    """Return *hosts* with those who have come since."""
    found = dict(hosts)
    for one in bucket.listing(prefix):
        rank, _, host = one.key[len(prefix) :].partition(",")
        if rank.isdigit() and int(rank) < nodes:
            found.setdefault(int(rank), host)
    return found


def _told(bucket: Bucket, prefix: str) -> Optional[Dict[int, str]]:
    """Return what the first node has put together, once it has."""
    content = bucket.get(prefix + ALL)
    return None if content is None else dict(enumerate(json.loads(content.decode("ascii"))))
