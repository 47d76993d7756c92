"""The rendezvous of the nodes of one attempt in a directory that they share, and the detection of lost nodes.

There is no server: each node writes only files with its own number in their names, each atomically.
"""

import os
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from runspec_agent.base import files, limits
from runspec_agent.base.job_env import LOST, Failure, JobEnv

POLL_S = 0.1


class Node(NamedTuple):
    rank: int
    host: str
    stack: str  # nodes with equal, non-empty stacks reach each other over loopback
    token: str  # the token of rank 0, which every request must contain
    port: int  # of rank 0: free at the time of writing
    start: str = ""  # the script of its ranks, if not its own daemon starts them


def stack() -> str:
    """Return a name of this network stack, from the boot id and network namespace; "" if they are unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as stream:
            return stream.read().strip() + "/" + os.readlink("/proc/self/ns/net")
    except OSError:
        return ""


def one_stack(nodes: Tuple[Node, ...]) -> bool:
    """Return whether *nodes* share one network stack, so that loopback is enough."""
    return nodes[0].stack != "" and len({node.stack for node in nodes}) == 1


class Rendezvous:
    """One node's files in `RUNSPEC_MEET/<attempt>/`, which only this user can access: requests are run as commands."""

    def __init__(self, job_env: JobEnv) -> None:
        assert job_env.meet is not None, "BUG: a rendezvous without a directory"
        self.words = job_env
        self.folder = os.path.join(job_env.meet, str(job_env.attempt))
        self._beats = 0
        self._next_beat = 0.0
        self._seen: Dict[int, Tuple[Optional[bytes], float]] = {}

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def join(self, token: str = "", port: int = 0, start: str = "") -> None:
        """Join the rendezvous. Only rank 0 sets *token* and *port*."""
        self._open()
        self.beat()
        job_env = self.words
        record = {"host": job_env.host, "stack": stack(), "token": token, "port": port}
        record["start"] = start
        path = self.path("rank-{}.json".format(job_env.rank))
        files.write_record(path, record)
        if os.stat(path).st_uid != os.stat(self.folder).st_uid:
            raise Failure("the rendezvous directory {} belongs to another user".format(self.folder))

    def _open(self) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        os.chmod(self.folder, 0o700)

    def seats(self) -> Dict[int, Node]:
        seats = {}
        for rank in range(self.words.nodes):
            record = files.read_record(self.path("rank-{}.json".format(rank)))
            if record is not None:
                seats[rank] = Node(rank, *(record[name] for name in Node._fields[1:]))
        return seats

    def beat(self) -> None:
        """Renew this node's heartbeat; call it often, it writes only at intervals."""
        now = time.monotonic()
        if now >= self._next_beat:
            self._beats += 1
            self._next_beat = now + min(limits.BEAT_S, self.words.lease_s / 4)
            files.write(
                self.path("alive-{}".format(self.words.rank)), str(self._beats).encode("ascii")
            )

    def gone(self, rank: int) -> bool:
        """Return whether *rank*'s heartbeat has not changed for the lease, by this node's clock."""
        now = time.monotonic()
        content = files.read(self.path("alive-{}".format(rank)))
        before, since = self._seen.get(rank, (None, now))
        if rank not in self._seen or content != before:
            self._seen[rank] = (content, now)
            return False
        return now - since > self.words.lease_s

    def end(self, code: int) -> None:
        """Record the exit code of this node, also for nodes that wait for one that will never join."""
        self._open()
        files.write_record(self.path("end-{}.json".format(self.words.rank)), {"code": code})

    def tell_to_stop(self, number: int) -> None:
        """Ask all nodes to end their program with this signal; only the first request counts."""
        if self.stopping() is None:
            files.write_record(self.path("stopping.json"), {"signal": number})

    def stopping(self) -> Optional[int]:
        record = files.read_record(self.path("stopping.json"))
        return None if record is None else int(record["signal"])

    def tell_of_failure(self, code: int) -> None:
        """Record that a rank has exited with *code*; only the first one counts."""
        if self.failed() is None:
            files.write_record(self.path("failed.json"), {"code": code})

    def failed(self) -> Optional[int]:
        record = files.read_record(self.path("failed.json"))
        return None if record is None else int(record["code"])

    def ended(self, rank: int) -> Optional[int]:
        """Return the exit code of *rank*, or None."""
        record = files.read_record(self.path("end-{}.json".format(rank)))
        return None if record is None else int(record["code"])


def complete(meeting: Rendezvous, seats: Dict[int, Node]) -> Optional[Tuple[Node, ...]]:
    """Return all nodes in rank order, or None while some are missing. Raise Failure if two have the same name."""
    if len(seats) < meeting.words.nodes:
        return None
    nodes = tuple(seats[rank] for rank in sorted(seats))
    ranks: Dict[str, int] = {}
    for node in nodes:
        other = ranks.setdefault(node.host, node.rank)
        if other != node.rank:
            text = "nodes {} and {} have the same name '{}': RUNSPEC_HOST must differ"
            raise Failure(text.format(other, node.rank, node.host))
    return nodes


def missing(meeting: Rendezvous, seats: Dict[int, Node]) -> Failure:
    ranks = [rank for rank in range(meeting.words.nodes) if rank not in seats]
    text = "{} of {} nodes did not join within {:g} s; missing: {}"
    listed = ", ".join(_ranges(ranks))
    return Failure(
        text.format(len(ranks), meeting.words.nodes, meeting.words.meet_timeout_s, listed), LOST
    )


def _ranges(ranks: List[int]) -> List[str]:
    """Return sorted *ranks* with consecutive numbers joined to ranges.

    >>> _ranges([1, 3, 4, 5])
    ['1', '3-5']
    """
    spans: List[List[int]] = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return [str(a) if a == b else "{}-{}".format(a, b) for a, b in spans]
