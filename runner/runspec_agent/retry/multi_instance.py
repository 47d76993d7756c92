"""The nodes of a task that a service starts together: one is the main node, and the others begin before it does.

Azure Batch runs the coordination command on all nodes, and when it has ended on each, the application command on the
main node alone; whoever is to do something on the others does it in the background. A try after a failure begins the
same way, perhaps on other nodes, and nothing tells a node which try it is in. So each node says that it is here before
its coordination command ends, and the main node opens the try with the list of those who are.
https://learn.microsoft.com/en-us/azure/batch/batch-mpi#coordination-command
"""

import json
import os
import threading
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

from runspec_agent.base.job_env import (
    IS_MAIN,
    LATE_S,
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
    """One node among its like. On all but the main node the thread sees when the try is over."""

    def __init__(self, bucket: Bucket, prefix: str, env: Mapping[str, str]) -> None:
        super().__init__(daemon=True)
        self.bucket, self.prefix = bucket, prefix
        self.hosts = ordered(env[NODE_NAMES].split(","), env.get(MAIN, "").rpartition(":")[0])
        self.rank = 0 if env.get(IS_MAIN) == "true" else self._rank(env)
        self.token = os.urandom(16).hex()
        self.id = env.get(NODE_ID, "")
        self.over = False
        self._record: Dict[str, Any] = {}  # of the try that the main node has opened
        self._ended = threading.Event()

    def _rank(self, env: Mapping[str, str]) -> int:
        """Return which of the others' addresses is this node's.

        All are, where one machine plays them all: then the first to say so has it, for as long as the list is the same.
        """
        found = [n for n in range(1, len(self.hosts)) if here(self.hosts[n])]
        if len(found) == 1:
            return found[0]
        import hashlib

        digest = hashlib.sha256(",".join(self.hosts).encode("utf-8")).hexdigest()
        own = env.get(NODE_ID, "").encode("utf-8")
        for rank in found if own else ():
            if self.bucket.claim("{}seats/{}/{}".format(self.prefix, digest, rank), own) == own:
                return rank
        raise Failure("no address of this node is in {}".format(",".join(self.hosts)), LOST)

    def announce(self) -> None:
        self.bucket.put(self.prefix + str(self.rank), self._seat())

    def _seat(self) -> bytes:
        return json.dumps([self.token, self.id]).encode("ascii")

    def open(self, number: int, signals: Signals) -> None:
        """On the main node: begin try *number* with all who are here, and say which machine has which rank."""
        tokens, machines = [self.token], [self.id]
        began, pace = time.monotonic(), Pace(0.25, LOOK_S)
        while len(tokens) < len(self.hosts):
            found = self.bucket.get(self.prefix + str(len(tokens)))
            if found is not None:
                token, machine = json.loads(found.decode("ascii"))
                tokens.append(token)
                machines.append(machine)
            else:
                self._wait(began, pace, signals)
        self._record = {"number": number, "tokens": tokens, "machines": machines, "over": False}
        self._write()

    def _write(self) -> None:
        self.bucket.put(self.prefix + OPEN, json.dumps(self._record).encode("ascii"))

    def number(self, signals: Signals) -> int:
        """On another node: wait for the try that this node is in, and return its number."""
        began, pace = time.monotonic(), Pace(0.25, LOOK_S)
        while True:
            found = self._opened()
            if self._in(found):
                if found["over"]:  # before this node had looked
                    raise Failure("the first node has ended", STOPPED)
                return int(found["number"])
            if self.bucket.get(self.prefix + str(self.rank)) != self._seat():
                raise Failure("another try has begun", STOPPED)
            self._wait(began, pace, signals)

    def _wait(self, began: float, pace: Pace, signals: Signals) -> None:
        if any(number in STOPS for number in signals.wait(pace.pause_s())):
            raise Failure("asked to stop before all nodes had come", STOPPED)
        if time.monotonic() - began > LATE_S:
            raise Failure("not all nodes came within {:g} s".format(LATE_S), LOST)

    def _opened(self) -> Dict[str, Any]:
        found = self.bucket.get(self.prefix + OPEN)
        record: Dict[str, Any] = {} if found is None else json.loads(found.decode("ascii"))
        return record

    def _in(self, record: Mapping[str, Any]) -> bool:
        tokens: List[str] = record.get("tokens", [])
        return tokens[self.rank : self.rank + 1] == [self.token]

    def run(self) -> None:
        while not self._ended.wait(LOOK_S):
            try:
                self.look()
            except Failure:  # the leases tell who cannot be heard from
                pass

    def look(self) -> None:
        found = self._opened()
        self.over = self.over or found.get("over", False) or not self._in(found)

    def finish(self) -> None:
        """On the main node, the try is over with this, and so is what still runs of it."""
        self._ended.set()
        if self._record:
            self._record["over"] = True
            try:
                self._write()
            except Failure:  # the service ends what it knows of
                pass


def read(bucket: Bucket, at: str, env: Mapping[str, str]) -> Optional[MultiInstanceTask]:
    """Return None where the service names no nodes, or starts all of them alike."""
    if not env.get(NODE_NAMES) or IS_MAIN not in env:
        return None
    return MultiInstanceTask(bucket, "{}nodes/{}/".format(at, env.get("RUNSPEC_TASK", "0")), env)


def ordered(names: Sequence[str], main: str) -> List[str]:
    """Return *names* in the order of ranks: the service does not promise that the main node is the first.

    >>> ordered(["10.0.0.5", "10.0.0.4", "10.0.0.6"], "10.0.0.4")
    ['10.0.0.4', '10.0.0.5', '10.0.0.6']
    """
    first = [name for name in names if name == main]
    return first + [name for name in names if name != main]
