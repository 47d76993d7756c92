"""Nodes of elastic runs leave and come back, also if the command is killed before, between or after its requests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runspec_jobs.api import resize
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Conflict, RunspecError, Unavailable, UnknownOutcome, UsageError
from runspec_jobs.provider import NodeStatus, Released, Seat, State, Status, Submits
from runspec_jobs.provider.node_ends import AWAY
from runspec_jobs.state.journal import Journal


class Killed(BaseException):
    pass


class Pool:
    """A run of two to five nodes, of which the last one waits, and the client of its service."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.run, self.want, self.elastic = folder, "r", "run", True
        self.away: set[Seat] = set()
        self.waiting, self.leaving = {(0, 4)}, set[Seat]()
        self.ended: State | None = None
        self.asked: list[tuple[set[Seat], set[Seat]]] = []
        self.kill_in: int | None = None  # boundaries to go until the command is killed
        self.told = Reporter()
        nodes = SimpleNamespace(min=2, max=5, elastic=True)
        self.spec = SimpleNamespace(cluster=SimpleNamespace(nodes=nodes), sweep={})
        self.plan = SimpleNamespace(steps=[], provider="local", run="r")
        monkeypatch.setattr(resize, "connect", lambda record: (None, self, None))
        monkeypatch.setattr(resize, "count_nodes", lambda record: (5, 1))
        monkeypatch.setattr(resize, "read_spec", lambda record: self.spec)

    def reach(self) -> None:
        """Pass a boundary, at which a command may be killed."""
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.kill_in = None
                raise Killed

    # The client.

    def release(
        self, run: str, away: Collection[Seat], back: Collection[Seat], submits: Submits
    ) -> Released:
        self.reach()
        self.asked.append((set(away), set(back)))
        stuck = self.leaving & set(back)
        for node in sorted({*away} - self.away):
            self.away.add(node)
            self.leaving |= {node} - self.waiting
            self.reach()
        for node in sorted((set(back) - stuck) & self.away):
            self.away.discard(node)
            self.reach()
        return Released(set(self.away), set(self.leaving))

    def state(self, run: str) -> Status:
        self.reach()
        return self.status()

    def status(self) -> Status:
        return Status(self.ended or State.RUNNING, nodes=tuple(map(self._node, range(5))))

    def _node(self, rank: int) -> NodeStatus:
        if (0, rank) in self.away - self.leaving:
            return NodeStatus(0, rank, 1, State.CANCELLED, AWAY)
        waits = (0, rank) in self.waiting
        return NodeStatus(0, rank, 1, State.WAITING if waits else State.RUNNING)

    # The record.

    @contextlib.contextmanager
    def open_journal(self, tell: object) -> Iterator[Journal]:
        with contextlib.closing(Journal(self.folder)) as journal:
            add = journal.add

            def adding(event: str, **fields: Any) -> None:
                self.reach()
                add(event, **fields)
                self.reach()

            journal.add = adding  # type: ignore[method-assign]
            journal.memory.want = self.want
            yield journal

    # The commands.

    def sleep(self, seconds: float) -> None:
        self.leaving.clear()

    def resize(self, count: int, task: int | None = None) -> Status:
        return resize.resize(cast("Any", self), count, task, self.told, self.sleep)

    def give(self, *nodes: int, task: int | None = None) -> Status:
        return resize.release(cast("Any", self), nodes, task, self.told, self.sleep)

    @property
    def ranks(self) -> list[int]:
        return sorted(rank for _, rank in self.away)


@pytest.fixture
def five(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pool:
    return Pool(tmp_path, monkeypatch)


def test_nodes_that_wait_leave_first_and_then_those_with_the_highest_numbers(five: Pool) -> None:
    status = five.resize(3)

    assert five.ranks == [3, 4]
    assert resize.measure(cast("Any", five), status) == (3, 3, ((0, 3), (0, 4)))


def test_nodes_that_are_named_leave_and_stay_away_until_others_are_asked_for(five: Pool) -> None:
    five.give(0, 2)
    five.give(2)
    assert five.ranks == [0, 2]

    five.resize(4)
    assert five.ranks == [2]
    five.resize(5)
    assert five.ranks == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (lambda five: five.resize(1), "r may have 2 to 5 nodes (got 1)"),
        (lambda five: five.resize(6), "r may have 2 to 5 nodes (got 6)"),
        (lambda five: five.give(1, 5), "r has no node 5"),
        (lambda five: five.give(0, 1, 2, 3), "r needs 2 nodes, and 1 would be left"),
        (lambda five: five.resize(3, task=1), "r has no task 1"),
    ],
)
def test_a_resize_beyond_the_spec_is_refused_before_any_request(
    five: Pool, command: Callable[[Pool], Status], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        command(five)

    assert caught.value.message == said
    assert not any(away or back for away, back in five.asked)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"ended": State.SUCCEEDED}, UsageError, "r is succeeded"),
        ({"want": "cancel"}, UsageError, "r is to be ended: cancel"),
        ({"plan": SimpleNamespace(steps=[SimpleNamespace(id="job")])}, UsageError, "has not start"),
        ({"release": None}, Unavailable, "'local' cannot give nodes of a job back"),
    ],
)
def test_a_run_whose_nodes_cannot_leave_is_refused(
    five: Pool, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], error: type, said: str
) -> None:
    if "release" in wrong:
        monkeypatch.setattr(resize, "SupportsRelease", type("None", (), {}))
    else:
        vars(five).update(wrong)

    with pytest.raises(RunspecError, match=said) as caught:
        five.resize(3)

    assert type(caught.value) is error and five.away == set()


def test_a_run_of_a_fixed_size_is_refused(five: Pool) -> None:
    five.spec.cluster.nodes.elastic = False

    with pytest.raises(UsageError, match="r is not elastic"):
        five.give(1)


def count_boundaries(five: Pool) -> int:
    five.kill_in = 1000
    five.resize(3)
    assert five.kill_in is not None
    return 1000 - five.kill_in


def test_a_command_that_is_killed_anywhere_and_repeated_ends_as_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down to three of five, with the killed command, and up again to four."""
    whole = tmp_path / "whole"
    whole.mkdir()
    found = {}
    for at in range(count_boundaries(Pool(whole, monkeypatch))):
        folder = tmp_path / str(at)
        folder.mkdir()
        five = Pool(folder, monkeypatch)
        five.kill_in = at
        with pytest.raises(Killed):
            five.resize(3)
        five.resize(3)
        down = five.ranks
        five.kill_in = at
        with contextlib.suppress(Killed):
            five.resize(4)
        five.kill_in = None
        five.resize(4)
        found[at] = down, five.ranks

    assert len(found) > 8 and set(map(str, found.values())) == {"([3, 4], [4])"}


def test_a_repeated_command_asks_for_nothing_more(five: Pool) -> None:
    five.resize(3)
    before = set(five.away)

    five.resize(3)

    assert five.away == before and five.asked[-1] == (before, set())


def test_nodes_that_do_not_leave_are_named(five: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resize, "LEAVE_S", 0.0)
    monkeypatch.setattr(five, "sleep", lambda seconds: None)

    with pytest.raises(UnknownOutcome, match="nodes of r have not left yet: 3"):
        five.resize(3)


def test_a_second_resize_ends_the_first_with_a_conflict(
    five: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(seconds: float) -> None:
        monkeypatch.setattr(five, "sleep", lambda seconds: five.leaving.clear())
        five.resize(4)

    monkeypatch.setattr(five, "sleep", other)

    with pytest.raises(Conflict, match="another command has changed the nodes of r"):
        five.resize(3)
