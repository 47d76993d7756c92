"""Nodes that go from round to round together: what becomes of a round is decided once, for all."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from runspec_agent.base import limits
from runspec_agent.base.job_env import STOPPED
from runspec_agent.base.process import Signals
from runspec_agent.retry import retry_rounds
from runspec_agent.retry.retry_rounds import AGAIN, RetryRound, RoundOutcome
from runspec_agent.store.base import Bucket
from tests.support.agent.breakable_stores import Way
from tests.support.wait import until

pytestmark = pytest.mark.process

PREFIX = "runs/r/rounds/0/"
Join = Callable[..., RetryRound]


@pytest.fixture
def signals() -> Iterator[Signals]:
    with Signals() as found:
        yield found


@pytest.fixture
def join(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Join]:
    """Nodes that beat and look as often as a test has patience."""
    monkeypatch.setattr(limits, "STORE_BEAT_S", 0.05)
    monkeypatch.setattr(limits, "STORE_LEASE_S", 3.0)
    monkeypatch.setattr(limits, "STORE_MEET_S", 20.0)
    monkeypatch.setattr(retry_rounds, "LOOK_S", 0.05)
    made: list[RetryRound] = []

    def node(rank: int, attempt: int = 1, start: bool = True, last: bool = False) -> RetryRound:
        made.append(retry_rounds.join(bucket, PREFIX, rank, 2, attempt, last))
        if start and made[-1].verdict is None:
            made[-1].start()
        return made[-1]

    yield node
    for one in made:
        silence(one)


def silence(one: RetryRound) -> None:
    """As if its machine was taken away."""
    one.over.set()
    one.woken.set()
    if one.ident is not None:
        one.join()


def both(do: Callable[[int], int]) -> list[int]:
    """Do something on both nodes at once."""
    codes = [-1, -1]

    def one(rank: int) -> None:
        codes[rank] = do(rank)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return codes


def test_a_round_is_over_when_all_have_ended(join: Join, signals: Signals) -> None:
    """Nobody leaves before: a machine that goes takes all into another round."""
    nodes = [join(0), join(1)]
    codes: list[int] = []
    first = threading.Thread(target=lambda: codes.append(nodes[0].end(0, signals)))
    first.start()
    until(lambda: nodes[0].bucket.get(nodes[0].prefix + "ended-0"))
    assert codes == []

    codes.append(nodes[1].end(0, signals))

    first.join(20)
    assert codes == [0, 0]
    assert join(1, 2).verdict == RoundOutcome(0, "all nodes have succeeded")


def test_a_node_that_goes_takes_the_others_into_the_next_round(
    join: Join, signals: Signals
) -> None:
    """Also one that had ended well, and one that comes late to the round."""
    nodes = [join(0), join(1)]

    codes = both(lambda rank: nodes[rank].end((STOPPED, 0)[rank], signals))

    assert codes == [STOPPED, AGAIN]
    assert [join(0, 2).number, join(1, 2).number] == [2, 2]


def test_a_node_that_was_lost_says_so_when_it_comes_again(join: Join) -> None:
    """Nobody else may have noticed; and attempts need not be in step."""
    first, lost = join(0), join(1)
    silence(lost)

    again = join(1, 2)

    until(lambda: first.verdict)
    assert first.verdict == RoundOutcome(AGAIN, "the machine of node 1 was reclaimed")
    assert (again.number, join(0, 2).number) == (2, 2)
    assert join(0, 3).number == 3


def test_a_try_that_begins_twice_has_one_seat(join: Join) -> None:
    """The reply to its claim was lost, say."""
    join(0)

    assert join(0).number == 1


def test_a_failure_for_good_ends_all_and_later_ones_do_not_begin(
    join: Join, signals: Signals
) -> None:
    nodes = [join(0), join(1)]

    codes = both(lambda rank: nodes[rank].end((0, 6)[rank], signals))

    assert codes == [6, 6]
    assert join(0, 2).verdict == RoundOutcome(6, "node 1 exited with 6")


def test_the_first_decision_of_a_round_is_kept(join: Join, signals: Signals) -> None:
    """A code that would end the job for good gives way: the others try again, and need this node."""
    nodes = [join(0), join(1, start=False)]
    nodes[0].decide(AGAIN, "node 0 loses its machine")

    assert nodes[1].end(6, signals) == AGAIN
    assert nodes[1].end(STOPPED, signals) == STOPPED


def test_nobody_waits_for_a_node_that_has_no_tries_left(join: Join, signals: Signals) -> None:
    """Services count the tries of each node by itself: one may have lost machines before it came here."""
    nodes = [join(0), join(1, 10, last=True)]
    silence(nodes[1])  # with its machine: it says nothing
    nodes[0].decide(AGAIN, "node 1 has sent no heartbeat")

    assert join(0, 2).verdict == RoundOutcome(1, "node 1 has no attempts left")


def test_a_last_try_that_goes_well_is_like_any_other(join: Join, signals: Signals) -> None:
    nodes = [join(0), join(1, 10, last=True)]

    assert both(lambda rank: nodes[rank].end(0, signals)) == [0, 0]


@pytest.mark.parametrize("early_s,code", [(60.0, AGAIN), (-1.0, retry_rounds.TOO_LONG)])
def test_nobody_waits_for_a_node_whose_time_is_over(join: Join, early_s: float, code: int) -> None:
    """Services try no such node again; one that was told to end before its time they do.

    https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html
    """
    node, other = join(0), join(1, start=False)
    node.deadline = time.monotonic() + early_s
    stopping = Signals()
    stopping.stopping = True

    assert node.end(STOPPED, stopping) == STOPPED

    verdict = other.look()
    assert verdict is not None
    assert verdict.code == code
    assert join(1, 2).number == (2 if code == AGAIN else 1)


def test_the_others_hear_of_a_proposal_while_they_run(join: Join) -> None:
    nodes = [join(0), join(1)]

    nodes[1].propose(AGAIN, "node 1 loses its machine")

    until(lambda: nodes[0].verdict)
    assert nodes[0].verdict == RoundOutcome(AGAIN, "node 1 loses its machine")


def test_a_failure_is_a_nodes_own_when_the_others_live(join: Join, signals: Signals) -> None:
    """They beat after it."""
    nodes = [join(0), join(1)]

    assert nodes[0].blame(signals) is None


def test_a_failure_is_not_a_nodes_own_where_another_has_gone(
    join: Join, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word, with its machine; the program noticed before anybody."""
    monkeypatch.setattr(limits, "STORE_LEASE_S", 0.5)
    nodes = [join(0), join(1)]
    until(lambda: nodes[1].bucket.get(nodes[1].prefix + "alive-1"))
    silence(nodes[1])

    found = nodes[0].blame(signals)

    assert found == RoundOutcome(AGAIN, "node 1 has sent no heartbeat")


def test_a_failure_is_not_a_nodes_own_where_another_had_told_of_its_end(
    join: Join, signals: Signals
) -> None:
    nodes = [join(0), join(1)]
    nodes[1].decide(AGAIN, "node 1 loses its machine")

    assert nodes[0].blame(signals) == RoundOutcome(AGAIN, "node 1 loses its machine")


def test_a_missing_node_is_not_blamed_for_a_failure(join: Join, signals: Signals) -> None:
    """A program that cannot be started fails at once, though machines come late."""
    assert join(0).blame(signals) is None


def test_a_node_that_succeeded_is_not_blamed_for_a_failure(join: Join, signals: Signals) -> None:
    """It does not beat any more."""
    nodes = [join(0), join(1, start=False)]
    nodes[1].beat()
    nodes[1].bucket.put(nodes[1].prefix + "ended-1", b"0")
    found: list[RoundOutcome | None] = []

    waiting = threading.Thread(target=lambda: found.append(nodes[0].blame(signals)), daemon=True)
    waiting.start()

    waiting.join(20)
    assert found == [None]


def test_a_node_that_is_silent_ends_the_round_for_those_who_wait(
    join: Join, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STORE_LEASE_S", 0.5)
    nodes = [join(0), join(1)]
    until(lambda: nodes[1].bucket.get(nodes[1].prefix + "alive-1"))
    silence(nodes[1])

    assert nodes[0].end(0, signals) == AGAIN


@pytest.mark.parametrize("failed", [True, False])
def test_sigterm_ends_the_wait_for_other_nodes(join: Join, signals: Signals, failed: bool) -> None:
    """And the others hear of it."""
    node, other = join(0), join(1, start=False)
    other.beat()
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    timer.start()

    if failed:
        assert node.blame(signals) == RoundOutcome(AGAIN, "node 0 was told to end")
    else:
        assert node.end(0, signals) == STOPPED

    assert other.look() == RoundOutcome(AGAIN, "node 0 was told to end")


def test_a_store_that_refuses_for_a_while_ends_no_round(join: Join, way: Way) -> None:
    nodes = [join(0), join(1)]
    way.breaks("403", times=4)

    nodes[1].propose(AGAIN, "node 1 loses its machine")

    until(lambda: nodes[0].verdict)
    assert nodes[0].is_alive()


def test_a_proposal_does_not_wait_for_the_next_look(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others' programs may fail for it at any moment."""
    monkeypatch.setattr(retry_rounds, "LOOK_S", 600.0)
    node, other = join(1), join(0, start=False)
    until(lambda: node.bucket.get(node.prefix + "alive-1"))

    node.propose(AGAIN, "node 1 loses its machine")

    until(other.look)
    assert other.verdict == RoundOutcome(AGAIN, "node 1 loses its machine")
