"""The roll of the nodes: who is where, for programs that start their processes themselves."""

import time
from typing import Callable, Dict, List, Optional

from .bucket import Bucket
from .meet import Node
from .process import STOPS, Pace, Signals
from .words import LOST, STOPPED, Failure

LATE_S = 3600.0  # for the last machine to come


def call(
    bucket: Bucket,
    prefix: str,
    node: Node,
    nodes: int,
    signals: Signals,
    failed: Callable[[], Optional[int]],
) -> List[Node]:
    """Tell the others where this node is, and wait for all; return them in the order of their ranks.

    Raise Failure when some do not come, when *failed* gives the code of one, or when we are asked to stop.
    """
    bucket.put("{}{}".format(prefix, node.rank), node.host.encode("utf-8"))
    found: Dict[int, Node] = {node.rank: node}
    began, pace = time.monotonic(), Pace(0.25)
    while len(found) < nodes:
        if any(number in STOPS for number in signals.wait(pace.pause_s())):
            raise Failure("asked to stop before all nodes had come", STOPPED)
        if time.monotonic() - began > LATE_S:
            text = "{} of {} nodes did not come within {:g} s"
            raise Failure(text.format(nodes - len(found), nodes, LATE_S), LOST)
        code = failed()
        if code is not None:
            raise Failure("a node failed before all had come", code)
        for one in bucket.listing(prefix):
            rank = int(one.key[len(prefix) :])
            if rank not in found and rank < nodes:
                host = (bucket.get(one.key) or b"").decode("utf-8")
                found[rank] = Node(rank, host, "", "", 0)
    return [found[rank] for rank in sorted(found)]
