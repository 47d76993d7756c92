"""Nodes that end together: the first waits for the others, and says how the job has ended."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from runspec_agent.base import limits
from runspec_agent.base.job_env import LOST, STOPPED, Failure, NoSpace
from runspec_agent.base.process import Signals
from runspec_agent.retry.exit_barrier import ExitBarrier
from runspec_agent.store.base import Bucket
from tests.support.agent.breakable_stores import Way
from tests.support.wait import SOON_S

pytestmark = pytest.mark.process

AT = "runs/r/gang/0/1/"
Make = Callable[..., ExitBarrier]


@pytest.fixture
def signals() -> Iterator[Signals]:
    with Signals() as found:
        yield found


@pytest.fixture
def make(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Nodes of a gang that has all the time of a test: what takes minutes takes fractions of a second."""
    monkeypatch.setattr(limits, "STORE_BEAT_S", 0.05)
    monkeypatch.setattr(limits, "STORE_LEASE_S", 3.0)
    monkeypatch.setattr(limits, "STORE_MEET_S", 600.0)
    monkeypatch.setattr(limits, "STORE_MOMENT_S", 0.2)
    made: list[ExitBarrier] = []

    def node(rank: int, nodes: int = 3, start: bool = True) -> ExitBarrier:
        made.append(ExitBarrier(bucket, AT, rank, nodes))
        if start:
            made[-1].start()
        return made[-1]

    yield node
    for gang in made:
        gang.over.set()
        if gang.ident is not None:
            gang.join()


def later(seconds: float, do: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(seconds, do)
    timer.start()
    return timer


def test_the_first_waits_for_the_others(make: Make, signals: Signals) -> None:
    """A service that looks at it alone would end them with it."""
    first, others = make(0), [make(1), make(2)]
    ended: list[int] = []

    def end() -> None:
        for gang in others:
            ended.append(gang.end(0, signals, True))

    timer = later(0.5, end)

    assert first.end(0, signals, True) == 0
    assert ended == [0, 0]
    timer.join()


def test_the_first_code_that_is_not_0_is_the_jobs(make: Make, signals: Signals) -> None:
    """Without waiting for the rest."""
    first = make(0)
    make(1)
    make(2).end(7, signals, True)

    assert first.end(0, signals, True) == 7


def test_the_firsts_own_failure_is_the_jobs_at_once(make: Make, signals: Signals) -> None:
    """The others are ended by the service."""
    first = make(0)
    make(1)

    assert first.end(3, signals, True) == 3


@pytest.mark.parametrize("kind", ["folder"], indirect=True)
@pytest.mark.parametrize(
    ("code", "own", "of_peer", "job"),
    [
        (3, True, "137", 3),
        (LOST, False, "137", 137),
        (LOST, True, "137", LOST),
        (LOST, False, "75 told", LOST),
        (STOPPED, False, "124 told", 124),
        (STOPPED, True, "124 told", 124),
        (STOPPED, True, "143 told", STOPPED),
    ],
)
def test_the_code_of_a_node_counts_that_ended_the_launcher_of_the_first(
    make: Make, signals: Signals, bucket: Bucket, code: int, own: bool, of_peer: str, job: int
) -> None:
    """The parent process of a killed agent records it a moment later. A program may exit with 75 by itself."""
    first = make(0, 2)
    timer = later(0.1, lambda: bucket.put(f"{AT}ended-1", of_peer.encode()))

    assert first.end(code, signals, False, own) == job
    assert first.own == (job == 137 or (own and job != 124))
    timer.join()


@pytest.mark.parametrize("kind", ["folder"], indirect=True)
@pytest.mark.parametrize(("code", "wait"), [(0, True), (STOPPED, False)])
def test_the_first_node_hears_that_another_one_has_filled_the_store(
    make: Make, signals: Signals, code: int, wait: bool
) -> None:
    first, other = make(0, 2), make(1, 2)
    other.full = True
    other.end(1, signals, wait)

    assert first.end(code, signals, wait, is_own=not code) == 1

    assert (first.full, first.own) == (True, True)


@pytest.mark.parametrize("kind", ["folder"], indirect=True)
def test_nodes_that_a_full_store_makes_silent_are_not_lost(
    make: Make, signals: Signals, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no empty object either. Another attempt would have no room."""
    monkeypatch.setattr(limits, "STORE_LEASE_S", 0.5)
    first, other = make(0, 2), make(1, 2)
    later(0.2, lambda: None).join()

    def refuse(key: str, body: bytes) -> None:
        raise NoSpace("the store is full")

    monkeypatch.setattr(bucket, "put", refuse)

    assert first.end(0, signals, True) == 1
    assert (first.full, first.own) == (True, False)
    assert other.is_alive()


@pytest.mark.parametrize("kind", ["folder"], indirect=True)
def test_a_launcher_that_failed_waits_a_moment_for_the_other_nodes(
    make: Make, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STORE_SETTLE_S", 0.3)
    began = time.monotonic()

    assert make(0).end(3, signals, False) == 3

    assert 0.3 <= time.monotonic() - began < SOON_S


def test_nodes_other_than_the_first_return_their_own_code(make: Make, signals: Signals) -> None:
    """And stop to beat."""
    other = make(1)

    assert other.end(5, signals, True) == 5

    other.join(5)
    assert not other.is_alive()


def test_a_silent_node_is_lost_after_its_lease(
    make: Make, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others may be tried again: it is no failure of the job."""
    monkeypatch.setattr(limits, "STORE_LEASE_S", 0.5)
    first = make(0)
    make(2).end(0, signals, True)
    silent = make(1)
    later(0.2, silent.over.set).join()
    began = time.monotonic()

    with pytest.raises(Failure, match="node 1 has sent no heartbeat: it is lost") as failure:
        first.end(0, signals, True)

    assert failure.value.code == LOST
    assert time.monotonic() - began > 0.4


@pytest.mark.slow
def test_a_node_that_beats_is_waited_for_longer_than_a_lease(make: Make, signals: Signals) -> None:
    """As long as it lives."""
    first, other = make(0, 2), make(1, 2)
    later(4.5, lambda: other.end(0, signals, True))

    assert first.end(0, signals, True) == 0


def test_a_node_that_never_begins_is_lost(
    make: Make, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a longer time: machines start late."""
    monkeypatch.setattr(limits, "STORE_MEET_S", 0.3)

    with pytest.raises(Failure, match="node 1"):
        make(0, 2).end(0, signals, True)


def test_with_a_launcher_those_who_never_came_get_a_moment(make: Make, signals: Signals) -> None:
    """It has ended the job already."""
    began = time.monotonic()

    assert make(0).end(0, signals, False) == 0

    assert 0.2 < time.monotonic() - began < SOON_S


@pytest.mark.slow
def test_with_a_launcher_those_who_still_save_are_waited_for(make: Make, signals: Signals) -> None:
    """Their codes do not count: it has spoken for them."""
    first, other = make(0, 2), make(1, 2)
    saved: list[int] = []
    timer = later(1.2, lambda: saved.append(other.end(143, signals, False)))

    assert first.end(0, signals, False) == 0
    timer.join()
    assert saved == [143]


def test_a_stop_ends_the_waiting(make: Make, signals: Signals) -> None:
    """SIGTERM; a signal for the program does not."""
    first = make(0, 2)
    make(1, 2)
    later(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    began = time.monotonic()
    later(0.6, lambda: os.kill(os.getpid(), signal.SIGTERM))

    assert first.end(0, signals, True) == STOPPED

    assert time.monotonic() - began > 0.4


def test_a_store_that_is_silent_for_a_while_loses_nobody(
    make: Make, bucket: Bucket, way: Way
) -> None:
    """Those who could not beat begin their lease anew."""
    first = make(0, 2, start=False)
    bucket.put(AT + "alive-1", b"1")
    first.take_in()
    first.seen = {name: (etag, -1e9) for name, (etag, _) in first.seen.items()}
    assert first.lost_node(0.0, 1e9) == 1
    way.breaks("403")

    first.check()
    first.check()

    assert first.lost_node(0.0, 1e9) is None


def test_a_store_that_stays_silent_is_lost(
    make: Make, signals: Signals, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a lease."""
    monkeypatch.setattr(limits, "STORE_LEASE_S", 0.3)
    first = make(0, 2)
    way.breaks("403", times=10**6)

    with pytest.raises(Failure, match=r"the store refuses (rehearsal/)?inside: 403") as failure:
        first.end(0, signals, True)

    assert failure.value.code == LOST


def test_the_code_of_an_ended_node_is_fetched_once(make: Make, signals: Signals, way: Way) -> None:
    """A code is fetched once, however long the others take."""
    first, other = make(0), make(1)
    make(2).end(0, signals, True)
    later(0.5, lambda: other.end(0, signals, True))

    first.end(0, signals, True)

    assert way.count("GET", "ended-2") == 1
