"""The nodes of a multi-instance task, of which one is the main node, and the others start before it.

Azure Batch runs the coordination command on all nodes and, once it has ended on each, the application command on the
main node only; on the other nodes, the agent runs in the background. Another attempt after a failure starts in the
same way, perhaps on other nodes, and no node can see which attempt it is in. So each node writes a record before its
coordination command ends, and the main node opens the attempt with the list of these nodes.

https://learn.microsoft.com/en-us/azure/batch/batch-mpi#coordination-command
"""

import json
import os
import threading
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

from runspec_agent.base import limits
from runspec_agent.base.job_env import (
    IS_MAIN,
    LOST,
    MAIN,
    NODE_ID,
    NODE_NAMES,
    STOPPED,
    Failure,
)
from runspec_agent.base.process import STOPS, Pace, Signals
from runspec_agent.env.address import here
from runspec_agent.rendezvous.host_exchange import LOOK_S
from runspec_agent.store.base import Bucket

OPEN = "open"


class MultiInstanceTask(threading.Thread):
    """One node of the task. On all but the main node, the thread watches for the end of the attempt."""

    def __init__(self, bucket: Bucket, prefix: str, env: Mapping[str, str]) -> None:
        super().__init__(daemon=True)
        self.bucket, self.prefix = bucket, prefix
        self.hosts = ordered(env[NODE_NAMES].split(","), env.get(MAIN, "").rpartition(":")[0])
        self.rank = 0 if env.get(IS_MAIN) == "true" else self._rank(env)
        self.token = os.urandom(16).hex()
        self.id = env.get(NODE_ID, "")
        self.over = False
        self._record: Dict[str, Any] = {}  # of the attempt that the main node has opened
        self._ended = threading.Event()

    def _rank(self, env: Mapping[str, str]) -> int:
        """Return the position of this node's address in the list of nodes.

        If one machine has all addresses, as in an emulator, the first process to claim an address gets it, as long as
        the list does not change.
        """
        ranks = [n for n in range(1, len(self.hosts)) if here(self.hosts[n])]
        if len(ranks) == 1:
            return ranks[0]
        import hashlib

        digest = hashlib.sha256(",".join(self.hosts).encode("utf-8")).hexdigest()
        node_id = env.get(NODE_ID, "").encode("utf-8")
        for rank in ranks if node_id else ():
            if (
                self.bucket.claim("{}seats/{}/{}".format(self.prefix, digest, rank), node_id)
                == node_id
            ):
                return rank
        text = "none of this node's addresses is in the list of the task's nodes: {}"
        raise Failure(text.format(",".join(self.hosts)), LOST)

    def announce(self) -> None:
        self.bucket.put(self.prefix + str(self.rank), self._seat())

    def _seat(self) -> bytes:
        return json.dumps([self.token, self.id]).encode("ascii")

    def open(self, number: int, signals: Signals) -> None:
        """Start attempt *number*, on the main node, with all nodes that are present, and write the rank of each."""
        tokens, machines = [self.token], [self.id]
        began, pace = time.monotonic(), Pace(0.25, LOOK_S)
        while len(tokens) < len(self.hosts):
            existing = self.bucket.get(self.prefix + str(len(tokens)))
            if existing is not None:
                token, machine = json.loads(existing.decode("ascii"))
                tokens.append(token)
                machines.append(machine)
            else:
                self._wait(began, pace, signals)
        self._record = {"number": number, "tokens": tokens, "machines": machines, "over": False}
        self._write()

    def _write(self) -> None:
        self.bucket.put(self.prefix + OPEN, json.dumps(self._record).encode("ascii"))

    def number(self, signals: Signals) -> int:
        """Wait, on another node, for the attempt that this node is in, and return its number."""
        began, pace = time.monotonic(), Pace(0.25, LOOK_S)
        while True:
            record = self._opened()
            if self._in(record):
                if record["over"]:  # before this node read it
                    raise Failure("the first node has ended", STOPPED)
                return int(record["number"])
            if self.bucket.get(self.prefix + str(self.rank)) != self._seat():
                raise Failure("another attempt has begun", STOPPED)
            self._wait(began, pace, signals)

    def _wait(self, began: float, pace: Pace, signals: Signals) -> None:
        if any(number in STOPS for number in signals.wait(pace.pause_s())):
            raise Failure("asked to stop before all nodes had joined", STOPPED)
        if time.monotonic() - began > limits.STORE_MEET_S:
            raise Failure("not all nodes joined within {:g} s".format(limits.STORE_MEET_S), LOST)

    def _opened(self) -> Dict[str, Any]:
        content = self.bucket.get(self.prefix + OPEN)
        record: Dict[str, Any] = {} if content is None else json.loads(content.decode("ascii"))
        return record

    def _in(self, record: Mapping[str, Any]) -> bool:
        tokens: List[str] = record.get("tokens", [])
        return tokens[self.rank : self.rank + 1] == [self.token]

    def run(self) -> None:
        while not self._ended.wait(LOOK_S):
            try:
                self.look()
            except Failure:  # heartbeats show which nodes are lost
                pass

    def look(self) -> None:
        record = self._opened()
        self.over = self.over or record.get("over", False) or not self._in(record)

    def finish(self) -> None:
        """End the attempt, on the main node, and with it all other nodes."""
        self._ended.set()
        if self._record:
            self._record["over"] = True
            try:
                self._write()
            except Failure:  # the service ends the nodes that it knows
                pass


def read(bucket: Bucket, at: str, env: Mapping[str, str]) -> Optional[MultiInstanceTask]:
    """Return this node's part, or None if the service does not list the nodes, or starts all of them alike."""
    if not env.get(NODE_NAMES) or IS_MAIN not in env:
        return None
    return MultiInstanceTask(bucket, "{}nodes/{}/".format(at, env.get("RUNSPEC_TASK", "0")), env)


def ordered(names: Sequence[str], main: str) -> List[str]:
    """Return *names* in the order of ranks, the main node first; the service does not guarantee this order.

    >>> ordered(["10.0.0.5", "10.0.0.4", "10.0.0.6"], "10.0.0.4")
    ['10.0.0.4', '10.0.0.5', '10.0.0.6']
    """
    first = [name for name in names if name == main]
    return first + [name for name in names if name != main]
