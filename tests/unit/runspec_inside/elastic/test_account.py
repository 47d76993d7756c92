"""What a change of nodes has cost, as the first node of the generation after it writes it down."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from runspec_inside.elastic.account import Account
from runspec_inside.elastic.engine import Turn
from runspec_inside.folder import FolderBucket

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


def turn(generation: int, rank: int = 0, nodes: int = 1) -> Turn:
    return Turn(generation, rank, [f"10.0.0.{n}" for n in range(nodes)], 1)


def test_steps_that_are_done_again_are_counted(store: FolderBucket, tmp_path: Path) -> None:
    mine = account(store, tmp_path / "a")
    mine.begin(turn(1), "")
    steps(mine, 1, 10)
    mine.look()
    mine.end()
    mine.begin(turn(2, nodes=2), "somebody joins")
    steps(mine, 8, 12)

    mine.look()

    first, second = found(store, 1), found(store, 2)
    assert (first["gap_s"], first["lost_steps"], first["first_step"]) == (None, None, 1)
    assert (second["lost_steps"], second["first_step"], second["nodes"]) == (3, 8, 2)
    assert second["why"] == "somebody joins"
    assert 0 <= second["gap_s"] < 60


def test_who_was_not_the_first_before_knows_how_far_it_was(
    store: FolderBucket, tmp_path: Path
) -> None:
    """The first one is lost: the next one has done the same steps."""
    first, next_one = account(store, tmp_path / "a"), account(store, tmp_path / "b")
    first.begin(turn(1, nodes=2), "")
    next_one.begin(turn(1, rank=1, nodes=2), "")
    steps(next_one, 1, 5)
    next_one.end()
    next_one.begin(turn(2), "10.0.0.0 is gone")
    steps(next_one, 3, 3)

    next_one.look()

    assert found(store, 2)["lost_steps"] == 3


def test_a_node_that_is_new_asks_the_store(store: FolderBucket, tmp_path: Path) -> None:
    """All others were lost; what they had noted last is there."""
    old, new = account(store, tmp_path / "a"), account(store, tmp_path / "b")
    old.begin(turn(1), "")
    steps(old, 1, 6)
    old.end()

    new.begin(turn(2), "")
    steps(new, 5, 5)
    new.look()

    assert found(store, 2)["lost_steps"] == 2


def test_without_steps_the_time_without_a_program_is_told(
    store: FolderBucket, tmp_path: Path
) -> None:
    mine = account(store, tmp_path / "a")
    mine.begin(turn(1), "")
    mine.end()
    time.sleep(0.02)

    mine.begin(turn(2), "")

    assert found(store, 2)["gap_s"] >= 0.02
    assert found(store, 2)["lost_steps"] is None
