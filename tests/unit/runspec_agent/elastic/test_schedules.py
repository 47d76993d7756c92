"""The membership under random schedules: who comes and goes, and what the network, the store and clocks do meanwhile.

Whatever happens, of each term one node leads, nothing is written for a generation when a later one has begun, and no
two generations run by clocks that go. When all is calm again, those that are up run together, save, and end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

from runspec_agent.elastic import fence, policy, protocol as courses
from runspec_agent.elastic.fence import FENCE, Ask, FencingToken, Work, looked
from runspec_agent.elastic.protocol import MemberProtocol
from tests.support.agent import elastic_simulation as worlds
from tests.support.agent.elastic_schedules import scheduled
from tests.support.agent.elastic_simulation import Broken, Store

ALL, MANY, BLOCK, FEW = 10_000, 500, 500, 200
BLOCKS = [
    pytest.param(first, marks=() if first < MANY else pytest.mark.matrix)
    for first in range(0, ALL, BLOCK)
]


def broken(seeds: range) -> list[str]:
    found: list[str] = []
    for seed in seeds:
        try:
            scheduled(seed)
        except Broken as what:
            found.append(f"seed {seed}: {what}")
    return found


def go_through(seeds: range) -> None:
    for seed in seeds:
        scheduled(seed)


def test_a_few_schedules_break_nothing() -> None:
    assert broken(range(FEW)) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", BLOCKS)
def test_no_schedule_breaks_anything(first: int) -> None:
    assert broken(range(first, first + BLOCK)) == []


def test_a_schedule_is_the_same_each_time() -> None:
    """So that a seed that fails can be looked into."""
    first, second = scheduled(5), scheduled(5)

    assert first.store.records == second.store.records
    assert (first.now, first.requests) == (second.now, second.requests)


def test_the_schedules_are_no_quiet_ones() -> None:
    """Leaders change, generations follow each other, and programs save in them."""
    seen: Counter[str] = Counter()
    for seed in range(FEW):
        world = scheduled(seed)
        state = world.store.state
        assert state is not None
        seen["terms"] += state.term
        seen["generations"] += state.generation
        seen["saves"] += world.store.commits
        seen["failures"] += state.failures
        seen["nodes"] += len(world.nodes)

    assert seen["terms"] > 1.5 * FEW
    assert seen["generations"] > 2 * FEW
    assert seen["saves"] > 5 * FEW
    assert seen["failures"] > 0.1 * FEW


# Each of these breaks one promise on purpose: the schedules have to find it.


def unfenced(generation: int, note: str) -> Work:
    """Write, whichever generation may."""
    mark, etag = yield from looked()
    new = FencingToken(generation, mark.number + 1, note)
    return (yield Ask("swap", FENCE, new.to_bytes(), etag)) is not None


def unasked(self: MemberProtocol, new: policy.State) -> Generator[Ask, Any, None]:
    """Write over what is there now, whoever wrote it since this node looked."""
    found = yield Ask("fetch", courses.STATE)
    self._etag = None if found is None else found[1]
    yield from SWAP(self, new)


def unraised(generation: int) -> Work:
    """Begin a generation and leave the fence where it is until a second later."""
    yield from looked()
    return True


SWAP = MemberProtocol.swap
BREAKS: dict[str, tuple[object, str, object]] = {
    "a store without conditions": (Store, "fits", lambda *_: True),
    "a leader that writes over another's state": (MemberProtocol, "swap", unasked),
    "a fence that lets all through": (worlds, "committed", unfenced),
    "a fence that is not raised": (fence, "raised", unraised),
    "a node that never stops by itself": (MemberProtocol, "_lost", lambda *_: False),
    "a generation that waits for nobody": (policy, "_waits", lambda *_: False),
    "a leader whom nobody follows": (MemberProtocol, "_abandoned", lambda *_: False),
    "a lease that never ends": (policy.Sight, "lives", lambda *_: True),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_broken_promise_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BREAKS[what])

    with pytest.raises(Broken):
        go_through(range(3 * FEW))
