"""What a change of nodes has cost, as the first node of the generation after it writes it down."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.elastic import change_cost as accounts
from runspec_agent.elastic.change_cost import Account
from runspec_agent.elastic.policy import LATE, LEFT, RUNNING, SILENT, Node
from runspec_agent.elastic.protocol import View
from runspec_agent.elastic.runtime import Turn
from runspec_agent.store.folder import FolderBucket

AT = "runs/r/elastic/0/"


@pytest.fixture
def store(tmp_path: Path) -> FolderBucket:
    (tmp_path / "store").mkdir()
    return FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path / 'store'}"})


def account(store: FolderBucket, folder: Path) -> Account:
    folder.mkdir()
    return Account(store, AT, str(folder))


def steps(of: Account, first: int, last: int) -> None:
    with open(of.path, "a") as file:
        file.writelines(f"{step}\n" for step in range(first, last + 1))


def found(store: FolderBucket, generation: int) -> dict[str, Any]:
    content = store.get(f"{AT}changes/{generation:07}")
    assert content is not None
    record: dict[str, Any] = json.loads(content)
    return record


NODES = [Node(f"{n:05}-{n}{n}{n}{n}", 1, f"10.0.0.{n}") for n in range(6)]


def begin(
    of: Account,
    generation: int,
    why: str = "",
    *,
    rank: int = 0,
    nodes: int = 1,
    stayed: int = 1,
    went: tuple[tuple[Node, str], ...] = (),
) -> None:
    members = tuple(NODES[:nodes])
    view = View(generation, RUNNING, rank, members, members[0].id, 0, why, False, stayed, went)
    of.begin(Turn(generation, rank, [node.host for node in members], 1), view)


def test_steps_that_are_done_again_are_counted(store: FolderBucket, tmp_path: Path) -> None:
    mine = account(store, tmp_path / "a")
    begin(mine, 1)
    steps(mine, 1, 10)
    mine.look()
    mine.end()
    begin(mine, 2, "somebody joins", nodes=2)
    steps(mine, 8, 12)

    mine.look()

    first, second = found(store, 1), found(store, 2)
    assert (first["gap_s"], first["lost_steps"], first["first_step"]) == (None, None, 1)
    assert (second["lost_steps"], second["first_step"], second["nodes"]) == (3, 8, 2)
    assert second["why"] == "somebody joins"
    assert 0 <= second["gap_s"] < 60


def test_a_new_first_node_counts_from_its_own_steps(store: FolderBucket, tmp_path: Path) -> None:
    """The first one is lost: the next one has done the same steps."""
    first, next_one = account(store, tmp_path / "a"), account(store, tmp_path / "b")
    begin(first, 1, nodes=2)
    begin(next_one, 1, rank=1, nodes=2)
    steps(next_one, 1, 5)
    next_one.end()
    begin(next_one, 2, "10.0.0.0 is gone")
    steps(next_one, 3, 3)

    next_one.look()

    assert found(store, 2)["lost_steps"] == 3


def test_a_node_that_is_new_asks_the_store(store: FolderBucket, tmp_path: Path) -> None:
    """All others were lost; what they had noted last is there."""
    old, new = account(store, tmp_path / "a"), account(store, tmp_path / "b")
    begin(old, 1)
    steps(old, 1, 6)
    old.end()

    begin(new, 2)
    steps(new, 5, 5)
    new.look()

    assert found(store, 2)["lost_steps"] == 2


def test_without_steps_the_time_without_a_program_is_told(
    store: FolderBucket, tmp_path: Path
) -> None:
    mine = account(store, tmp_path / "a")
    begin(mine, 1)
    mine.end()
    time.sleep(0.02)

    begin(mine, 2)
    mine.look()

    assert found(store, 2)["gap_s"] >= 0.02
    assert found(store, 2)["lost_steps"] is None


def test_the_record_of_a_change_says_who_joined_left_or_was_lost(
    store: FolderBucket, tmp_path: Path
) -> None:
    mine = account(store, tmp_path / "a")
    told = f"{AT}nodes/00003-3333,1,10.0.0.3,leaving"
    store.put(told, b"the machine will be reclaimed at 12:00")
    went = ((NODES[3], LEFT), (NODES[4], SILENT), (NODES[5], LATE))

    begin(mine, 7, "10.0.0.3 is leaving", nodes=3, stayed=2, went=went)
    mine.look()

    record = found(store, 7)
    assert (record["before"], record["nodes"]) == (5, 3)
    assert record["came"] == [{"node": 2, "host": "10.0.0.2"}]
    why = "the machine will be reclaimed at 12:00"
    assert record["left"] == [{"node": 3, "host": "10.0.0.3", "why": why}]
    assert [(who["node"], who["why"]) for who in record["lost"]] == [
        (4, "it was silent"),
        (5, "it did not stop in time"),
    ]


def test_before_a_first_step_the_seconds_are_not_known(store: FolderBucket, tmp_path: Path) -> None:
    """They are those up to that step; and where the next change is faster, it has them all."""
    mine = account(store, tmp_path / "a")
    begin(mine, 1)
    steps(mine, 1, 10)
    mine.end()
    begin(mine, 2)
    mine.look()
    time.sleep(0.02)
    mine.end()
    begin(mine, 3)
    steps(mine, 8, 8)

    mine.look()

    assert [found(store, 2)[name] for name in ("gap_s", "lost_steps", "first_step")] == [None] * 3
    assert found(store, 3)["gap_s"] >= 0.02
    assert [found(store, 3)[name] for name in ("lost_steps", "exact", "since")] == [3, True, 1]


def test_steps_of_a_lost_first_node_count_as_far_as_recorded(
    store: FolderBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With MPI the first process alone tells steps. Its last ones, when all is lost at once, nobody knows."""
    monkeypatch.setattr(accounts, "EVERY_S", 0.0)
    first, next_one = account(store, tmp_path / "a"), account(store, tmp_path / "b")
    begin(first, 1, nodes=2)
    begin(next_one, 1, rank=1, nodes=2)
    steps(first, 1, 6)
    first.look()
    first.look()
    steps(first, 7, 9)
    next_one.end()
    begin(next_one, 2)
    steps(next_one, 5, 5)

    next_one.look()

    assert (found(store, 2)["lost_steps"], found(store, 2)["exact"]) == (2, False)


def test_a_returning_node_uses_the_records_of_the_others(
    store: FolderBucket, tmp_path: Path
) -> None:
    """It was a member two generations ago, and knows less than the store."""
    away, other = account(store, tmp_path / "a"), account(store, tmp_path / "b")
    begin(away, 1)
    steps(away, 1, 4)
    away.end()
    begin(other, 2)
    steps(other, 5, 9)
    other.end()
    begin(away, 3)
    steps(away, 9, 9)

    away.look()

    assert (found(store, 3)["lost_steps"], found(store, 3)["exact"]) == (1, True)


def test_a_store_that_is_silent_for_a_while_gets_the_record_later(
    store: FolderBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, put = account(store, tmp_path / "a"), store.put

    def silent(key: str, content: bytes) -> None:
        raise Failure("no answer")

    monkeypatch.setattr(store, "put", silent)
    begin(mine, 1)
    steps(mine, 1, 1)
    mine.look()
    monkeypatch.setattr(store, "put", put)
    mine.end()

    assert found(store, 1)["first_step"] == 1


def test_clocks_that_disagree_give_no_seconds(store: FolderBucket, tmp_path: Path) -> None:
    """The node that noted last is an hour ahead."""
    mark = {"step": 4, "at": time.time() + 3600, "generation": 1, "over": True}
    store.put(f"{AT}progress", json.dumps(mark).encode())
    mine = account(store, tmp_path / "a")
    begin(mine, 2)
    steps(mine, 5, 5)

    mine.look()

    assert (found(store, 2)["gap_s"], found(store, 2)["lost_steps"]) == (None, 0)
