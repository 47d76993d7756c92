"""What the leader of an elastic job has observed of the other nodes: their heartbeats and the messages they wrote."""

import math
from typing import Dict, Iterable, Optional, Set, Tuple

from runspec_agent.elastic.policy import Node, Seen, Sight, Timing

NODES, SAID = "nodes/", "said/{}/"

Listed = Tuple[str, str]  # the name below the prefix, and the ETag


def name_of(node: Node) -> str:
    """Return the name of the node's record, which has all its data, since a list request shows names only."""
    return "{},{},{}".format(node.id, node.slots, node.host)


def node_of(name: str) -> Optional[Tuple[Node, str]]:
    """Return the node and its message from a record's name, or None if *name* is not a node's record."""
    parts = name.split(",")
    if not 3 <= len(parts) <= 4 or not parts[1].isdigit():
        return None
    return Node(parts[0], int(parts[1]), parts[2]), "".join(parts[3:])


class Watch:
    def __init__(self, now: float, missed: str = "") -> None:
        """Start watching; *missed* was the leader, and is lost unless it sends a heartbeat again."""
        self.since, self._missed = now, missed
        self._generation: Tuple[int, str] = (0, "")
        self._etags: Dict[str, str] = {}
        self._seen: Dict[str, Seen] = {}
        self._said: Dict[str, Dict[str, float]] = {}
        self._looked = now

    def knows(self, generation: int, phase: str, now: float) -> None:
        """Forget the messages of the generation before when a new generation or phase begins."""
        if self._generation == (generation, phase):
            return
        if self._generation[0] != generation:
            self._said = {}
        self._generation = (generation, phase)
        self.since = now

    def take(
        self, nodes: Iterable[Listed], said: Iterable[Listed], now: float, timing: Timing
    ) -> None:
        """Update the observations from two lists, of heartbeats and of messages.

        After a time without lists, for example while the store was silent, no node could renew its lease: all leases
        start again.
        """
        if now - self._looked > timing.limit_s:
            for who, seen in self._seen.items():
                if self._looked - seen.changed <= timing.lease_s:
                    self._seen[who] = seen._replace(changed=now)
        self._looked = now
        words: Dict[str, Set[str]] = {}
        for name, etag in nodes:
            known = node_of(name)
            if known is None:
                continue
            node, word = known
            if word:
                words.setdefault(node.id, set()).add(word)
            elif self._etags.get(node.id) != etag:
                self._etags[node.id] = etag
                known_for = self._seen.get(node.id)
                missed = known_for is None and node.id == self._missed
                changed = -math.inf if missed else now
                self._seen[node.id] = Seen(
                    node, now if known_for is None else known_for.first, changed
                )
        for who, found in words.items():
            if who in self._seen:
                self._seen[who] = self._seen[who]._replace(
                    word=min(found)
                )  # GONE sorts before LEAVING
        for name, _ in said:
            who, _, word = name.partition(",")
            self._said.setdefault(who, {}).setdefault(word, now)

    def lose(self, ended: Iterable[str]) -> None:
        """Take the nodes *ended* for lost, without waiting for the end of their lease."""
        for who in ended:
            if who in self._seen:
                self._seen[who] = self._seen[who]._replace(changed=-math.inf)

    def sight(self, now: float, at: float) -> Sight:
        return Sight(now, self.since, at, dict(self._seen), self._said)
