"""What torchrun is told of its generation, and what it tells: two files, each of them whole."""

from __future__ import annotations

import json
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.elastic.torch_rendezvous import STOPPED, VIEW, Handler, Ranks, read, write
from tests.support.wait import until

TURN: dict[str, Any] = {
    "generation": 1,
    "phase": "running",
    "rank": 1,
    "nodes": 3,
    "slots": 2,
    "leader": "10.0.0.4",
    "port": 4711,
    "env": {},
}


def test_a_generation_is_met_by_what_the_agent_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its variables become those of the workers that torchrun starts then."""
    monkeypatch.setenv("PYTHONPATH", "ours")
    env = {"RUNSPEC_GENERATION": "1", "PYTHONPATH": None}
    monkeypatch.delenv("RUNSPEC_GENERATION", raising=False)
    write(str(tmp_path / VIEW), {**TURN, "env": env})
    handler = Handler(str(tmp_path), "r")

    found = handler.next_rendezvous()

    assert (found.rank, found.world_size) == (1, 3)
    assert tuple(found.bootstrap_store_info) == ("10.0.0.4", 4711)
    assert os.environ["RUNSPEC_GENERATION"] == "1"
    assert "PYTHONPATH" not in os.environ
    assert handler.num_nodes_waiting() == 0


@pytest.mark.parametrize("change", [{"phase": "stopping"}, {"generation": 2}])
def test_workers_are_to_stop_as_soon_as_their_generation_is_over(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    write(str(tmp_path / VIEW), TURN)
    handler = Handler(str(tmp_path), "r")
    handler.next_rendezvous()

    write(str(tmp_path / VIEW), {**TURN, **change})

    assert handler.num_nodes_waiting() > 0


def test_a_generation_that_is_over_before_its_workers_start_is_said_to_be_left(
    tmp_path: Path,
) -> None:
    """As if they had been stopped: the agent waits for that."""
    write(str(tmp_path / VIEW), {**TURN, "phase": "stopping"})
    handler, met = Handler(str(tmp_path), "r"), []
    thread = threading.Thread(target=lambda: met.append(handler.next_rendezvous()), daemon=True)
    thread.start()
    left = {"generation": 1, "met": True}

    until(lambda: read(str(tmp_path / STOPPED)) == left, 20.0)

    write(str(tmp_path / VIEW), {**TURN, "generation": 2})
    thread.join(10)
    assert (len(met), handler.generation) == (1, 2)


def test_the_same_generation_is_not_met_twice(tmp_path: Path) -> None:
    """Workers that failed wait for the next one, and the agent hears that they have stopped."""
    write(str(tmp_path / VIEW), TURN)
    handler = Handler(str(tmp_path), "r")
    handler.next_rendezvous()
    assert read(str(tmp_path / STOPPED)) == {"generation": 0, "met": True}
    met: list[int] = []
    waiting = threading.Thread(target=lambda: met.append(handler.next_rendezvous().rank))

    waiting.start()
    while read(str(tmp_path / STOPPED)) != {"generation": 1, "met": True}:
        waiting.join(0.01)
    waiting.join(0.2)
    assert met == []
    write(str(tmp_path / VIEW), {**TURN, "generation": 2, "rank": 0})
    waiting.join(30)

    assert met == [0]


@pytest.mark.parametrize(("rank", "served"), [(0, [("10.0.0.4", 4711)]), (1, [])])
def test_the_first_node_has_the_store_of_the_workers(
    tmp_path: Path, rank: int, served: list[tuple[str, int]]
) -> None:
    """It is there before any worker: none of them makes one."""
    write(str(tmp_path / VIEW), {**TURN, "rank": rank})
    made: list[tuple[str, int]] = []
    handler = Handler(str(tmp_path), "r", lambda host, port: made.append((host, port)))

    handler.next_rendezvous()

    assert made == served
    assert handler.use_agent_store
    assert not Handler(str(tmp_path), "r").use_agent_store


def test_the_store_of_a_generation_ends_with_it(tmp_path: Path) -> None:
    """What one generation has put there is no other's."""
    write(str(tmp_path / VIEW), {**TURN, "rank": 0})
    made: list[weakref.ref[Any]] = []

    class Store: ...

    def serve(*_: object) -> Store:
        store = Store()
        made.append(weakref.ref(store))
        return store

    handler = Handler(str(tmp_path), "r", serve)
    handler.next_rendezvous()
    assert made[0]() is not None

    write(str(tmp_path / VIEW), {**TURN, "generation": 2})
    handler.next_rendezvous()

    assert [store() for store in made] == [None]


def test_a_generation_whose_port_is_taken_is_left_for_the_next(tmp_path: Path) -> None:
    """And the agent hears that it has not met."""
    write(str(tmp_path / VIEW), {**TURN, "rank": 0})
    found: list[Any] = []

    def serve(_: str, port: int) -> str:
        if port == TURN["port"]:
            found.append(port)
            write(str(tmp_path / VIEW), {**TURN, "rank": 0, "generation": 2, "port": 4712})
            raise RuntimeError("address already in use")
        found.append(read(str(tmp_path / STOPPED)))
        return "a store"

    met = Handler(str(tmp_path), "r", serve).next_rendezvous()

    assert found == [4711, {"generation": 1, "met": False}]
    assert met.bootstrap_store_info.master_port == 4712


@pytest.mark.parametrize("rank", range(3))
def test_ranks_of_workers_are_known_without_another_agent(rank: int) -> None:
    """As torchrun's agents work them out together. Its own barrier holds nobody up."""
    store = Ranks(3, 2)
    store.set(f"torchelastic/role_info/{rank}", b"mine")

    found = json.loads(store.get(f"torchelastic/assigned_ranks/{rank}"))

    assert found == [2 * rank, 6, 2 * rank, 6]
    assert store.multi_get(["a", "b"]) == [b"mine", b"mine"]
    store.wait(["never"])
