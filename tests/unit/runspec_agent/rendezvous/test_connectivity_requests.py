"""What a smoke test asks the store grows no faster than its nodes: counted in simulated time, always the same."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_agent.base import process
from runspec_agent.base.job_env import Failure
from runspec_agent.base.process import Signals
from runspec_agent.rendezvous import connectivity, host_exchange
from runspec_agent.rendezvous.connectivity import Reach
from runspec_agent.rendezvous.shared_directory import Node
from runspec_agent.store.base import Bucket, Object

LATENCY_S = 0.05
TRIES_S = 20.0  # what it takes a node to try all others where some are silent
PAGE = 1000  # keys in an answer, as S3 has it


class Clock:
    """Threads that take turns: the one that wakes up first is the only one that runs."""

    def __init__(self, threads: int) -> None:
        self.now_s, self._running = 0.0, threads
        self._lock, self._order = threading.Lock(), itertools.count()
        self._asleep: list[tuple[float, int, threading.Event]] = []

    def sleep(self, seconds: float) -> None:
        woken = threading.Event()
        with self._lock:
            heapq.heappush(self._asleep, (self.now_s + seconds, next(self._order), woken))
        self.leave()
        woken.wait()

    def leave(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0 and self._asleep:
                self.now_s, _, woken = heapq.heappop(self._asleep)
                self._running = 1
                woken.set()


class Slow(Bucket):
    """A store with a latency, in memory, that counts what it is asked."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.asked = clock, 0
        self.there: dict[str, bytes] = {}

    def _request(self, count: int = 1) -> None:
        self.asked += count
        self.clock.sleep(LATENCY_S * count)

    def get(self, key: str) -> bytes | None:
        self._request()
        return self.there.get(key)

    def put(self, key: str, content: bytes) -> None:
        self._request()
        self.there[key] = content

    def listing(self, prefix: str) -> Iterator[Object]:
        self._request(max(1, -(-len(self.there) // PAGE)))
        found = sorted(key for key in self.there if key.startswith(prefix))
        return iter([Object(key, len(self.there[key]), "") for key in found])


class Waits(Signals):
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def wait(self, seconds: float) -> list[int]:
        self.clock.sleep(seconds)
        return []


def asked(nodes: int, broken: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """Have *nodes* find out whether they can talk; give the requests of a node on average, and how long it took."""
    clock = Clock(nodes)
    bucket = Slow(clock)
    for module in (process, connectivity, host_exchange):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now_s))

    def tried(own: Reach, _: Any) -> dict[int, str]:
        clock.sleep(TRIES_S)
        return {n: "timed out" for n in range(nodes) if n != own.rank} if broken else {}

    monkeypatch.setattr(Reach, "try_all", tried)
    codes: list[int] = []

    def one(rank: int) -> None:
        clock.sleep(rank / nodes)  # nobody begins at the same moment
        try:
            Reach(bucket, "reach/0/1/", Node(rank, "127.0.0.1", "", "", 0), nodes).check(
                Waits(clock), ""
            )
            codes.append(0)
        except Failure as failure:
            codes.append(failure.code)
        finally:
            clock.leave()

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(nodes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert codes == [connectivity.UNREACHED if broken else 0] * nodes
    return bucket.asked / nodes, clock.now_s


@pytest.mark.process
@pytest.mark.parametrize("broken", [False, True])
def test_requests_of_a_node_do_not_grow_with_the_nodes(
    broken: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    few, more, many = (asked(nodes, broken, monkeypatch) for nodes in (16, 64, 256))

    assert max(more[0], many[0]) <= few[0]
    assert many[1] - few[1] < 10.0
    assert few[0] < 40
