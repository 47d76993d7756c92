"""Members that are threads, in real stores: they meet, lose one, go on, and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.elastic.member import Member, timing
from runspec_agent.elastic.policy import DONE, RUNNING, TOO_LONG, Bounds, Node, Timing
from runspec_agent.store.base import Bucket, connect
from tests.support.agent.breakable_stores import Way

pytestmark = pytest.mark.process

PREFIX = "runs/r/elastic/t/"
PATIENCE_S = 60.0
Make = Callable[..., Member]


def eventually(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)


class Agent(threading.Thread):
    """What the agent of a node does, without a program."""

    def __init__(self, member: Member) -> None:
        super().__init__(daemon=True)
        self.member, self.over = member, False
        self.generations: list[int] = []

    def run(self) -> None:
        while not self.over:
            view = self.member.view()
            if view.rank is not None and view.generation not in self.generations:
                self.generations.append(view.generation)
            elif view.rank is None:
                self.member.ready(view.generation)
            time.sleep(0.02)


@pytest.fixture
def make(kind: str, bucket: Bucket) -> Iterator[Make]:
    """Make a member whose agent runs; beats are short, and leases long enough for a busy machine."""
    agents: list[Agent] = []
    fast = Timing.of(0.5, grace_s=2.0)._replace(last_call_s=0.5, lease_s=6.0, limit_s=4.8)

    def one(number: int, least: int = 1, most: int = 3, limit_s: float = 0.0) -> Member:
        bounds = Bounds(least, most, limit_s=limit_s)
        member = Member(connect(), PREFIX, Node(f"{number}", 1, f"h{number}"), bounds, fast)
        agents.append(Agent(member))
        member.start()
        agents[-1].start()
        return member

    yield one
    for agent in agents:
        agent.over = True
        agent.member.close(1.0)
        agent.join()


def together(members: list[Member]) -> bool:
    views = [member.view() for member in members]
    ranks = sorted(view.rank for view in views if view.rank is not None)
    generations = {view.generation for view in views}
    return ranks == list(range(len(members))) and len(generations) == 1


def test_members_meet_lose_one_go_on_and_end(make: Make) -> None:
    """The one that is lost says nothing; what it would write afterwards does not count."""
    members = [make(n, least=2) for n in range(3)]
    eventually(lambda: together(members))
    old = members[0].view().generation
    lost = next(m for m in members if m.view().rank == 0)
    assert lost.commit(old, "first") and lost.may_write(old)

    lost.over.set()  # as if it had been killed
    rest = [m for m in members if m is not lost]
    eventually(lambda: together(rest))

    new = rest[0].view().generation
    assert new > old
    assert (lost.may_write(old), lost.commit(old, "too late")) == (False, False)
    assert rest[0].committed() == "first"
    assert rest[0].commit(new, "second") and rest[1].committed() == "second"

    next(m for m in rest if m.view().rank == 0).finish(new, 0)
    eventually(lambda: all(m.view().phase == DONE for m in rest))
    assert [(m.view().code, m.view().rank) for m in rest] == [(0, None)] * 2
    late = make(7)
    eventually(lambda: late.view().phase == DONE)


def test_a_member_comes_and_the_leader_goes(make: Make) -> None:
    """Who leaves is not waited for."""
    first = make(0)
    eventually(lambda: together([first]))
    second = make(1)
    eventually(lambda: together([first, second]))

    first.close()

    eventually(lambda: together([second]))
    assert second.view().leader == "1"
    assert (second.view().why, first.error) == ("h0 is lost", None)


def test_the_first_member_whose_time_is_over_ends_the_job(make: Make) -> None:
    """Also if others have come later, whose time is not over."""
    members = [make(n, limit_s=5.0) for n in range(2)]
    eventually(lambda: together(members))

    members[1].overdue()

    eventually(lambda: all(member.view().phase == DONE for member in members))
    ends = {(member.view().code, member.view().why) for member in members}
    assert ends == {(TOO_LONG, "timeout: not done after 5 s")}


def test_a_store_that_is_silent_stops_the_program_and_no_more(make: Make, way: Way) -> None:
    """When it answers again, all begin anew by themselves."""
    members = [make(n, most=2) for n in range(2)]
    eventually(lambda: together(members))
    before = members[0].view().generation

    way.breaks("503", times=10_000)
    eventually(lambda: all(m.view().lost and m.view().rank is None for m in members))
    assert all(isinstance(m.error, Failure) for m in members)
    way.mend()

    eventually(lambda: together(members))
    assert members[0].view().generation > before
    assert [m.error for m in members] == [None, None]


def test_a_commit_whose_reply_is_lost_is_known_by_asking_again(make: Make, way: Way) -> None:
    member = make(0)
    eventually(lambda: together([member]))
    generation = member.view().generation
    way.breaks("reset after", "PUT", "/fence")

    with pytest.raises(Failure):
        member.commit(generation, "a")

    assert member.committed() == "a"
    assert member.commit(generation, "a")


def test_requests_are_counted_by_kind(make: Make, way: Way) -> None:
    member = make(0)
    eventually(lambda: member.view().phase == RUNNING)
    member.close()

    asked = {method: way.count(method) for method in ("GET", "PUT")}

    found = member.requests
    assert found["put"] + found["swap"] == asked["PUT"]
    assert found["fetch"] + found["list"] == asked["GET"]


@pytest.mark.parametrize(
    "env, beat_s",
    [
        ({"RUNSPEC_STORE": "s3://b/p"}, 5.0),
        ({"RUNSPEC_STORE": "https://a.blob.core.windows.net/c/p"}, 5.0),
        ({"RUNSPEC_STORE": "file:///p"}, 1.0),
        ({"RUNSPEC_STORE": "file:///p", "RUNSPEC_BEAT_S": "2.5"}, 2.5),
    ],
)
def test_the_beat_is_that_of_the_store_or_what_is_told(env: dict[str, str], beat_s: float) -> None:
    found = timing(env, grace_s=20.0)

    assert (found.beat_s, found.lease_s) == (beat_s, 3 * beat_s)
    assert found.ready_s > 20.0


@pytest.mark.parametrize("text", ["x", "0", "nan", "-1", "1e9"])
def test_a_wrong_heartbeat_interval_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="RUNSPEC_BEAT_S") as failure:
        timing({"RUNSPEC_BEAT_S": text}, grace_s=20.0)

    assert failure.value.code == USAGE
