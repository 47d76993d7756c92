"""Nodes that a service starts together: who is which, and which try it is, on all of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import pytest

from runspec_agent.base import job_env, limits
from runspec_agent.base.job_env import LOST, STOPPED, Failure
from runspec_agent.base.process import Signals
from runspec_agent.retry import multi_instance as module
from runspec_agent.retry.multi_instance import MultiInstanceTask
from runspec_agent.store.base import Bucket

pytestmark = pytest.mark.process

AT = "runs/r/nodes/0/"
LIST = "127.0.0.3,127.0.0.2,127.0.0.4"
Make = Callable[..., MultiInstanceTask]


@pytest.fixture
def make(bucket: Bucket) -> Make:
    def node(number: int, names: str = LIST, main: str = "127.0.0.2:6000") -> MultiInstanceTask:
        env = {job_env.NODE_NAMES: names, job_env.MAIN: main, job_env.NODE_ID: f"node-{number}"}
        return MultiInstanceTask(bucket, AT, {**env, job_env.IS_MAIN: str(number == 0).lower()})

    return node


@pytest.fixture
def signals() -> Iterator[Signals]:
    with Signals() as found:
        yield found


def test_the_main_node_is_the_first_and_the_others_follow_the_list(make: Make) -> None:
    """Wherever it stands in the list. On one machine all addresses are everybody's: none is given twice."""
    found = [make(n) for n in (2, 0, 1)]

    assert [t.rank for t in found] == [1, 0, 2]
    assert {tuple(t.hosts) for t in found} == {("127.0.0.2", "127.0.0.3", "127.0.0.4")}


def test_a_node_keeps_its_place_in_the_next_try(make: Make) -> None:
    before = [make(n).rank for n in (1, 2)]

    assert [make(n).rank for n in (2, 1)] == list(reversed(before))


def test_the_address_of_this_machine_is_the_place(make: Make) -> None:
    """203.0.113.0/24 is nobody's: RFC 5737."""
    names = "203.0.113.1,203.0.113.2,127.0.0.1,203.0.113.3"

    assert make(1, names, "203.0.113.2:6000").rank == 2


def test_a_machine_that_is_not_in_the_list_is_told(make: Make) -> None:
    with pytest.raises(
        Failure, match=r"list of the task's nodes: 203.0.113.1,203.0.113.2"
    ) as found:
        make(1, "203.0.113.1,203.0.113.2", "203.0.113.1:6000")

    assert found.value.code == LOST


def test_all_nodes_have_the_number_of_the_try(make: Make, signals: Signals) -> None:
    """Also of the second, where what the first has left in the store must not be taken for it."""
    for number in (1, 2):
        nodes = [make(n) for n in range(3)]
        for node in nodes[1:]:
            node.announce()
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda n=n, to=found: to.append(n.number(signals)))
            for n in nodes[1:]
        ]
        for thread in threads:
            thread.start()

        nodes[0].open(number, signals)

        for thread in threads:
            thread.join(20)
        assert found == [number, number]


def test_the_main_node_records_the_machine_of_each_rank(
    bucket: Bucket, make: Make, signals: Signals
) -> None:
    """The service has numbers for nodes, too, and does not say that they are these."""
    nodes = [make(n) for n in (2, 1, 0)]
    for node in nodes[:2]:
        node.announce()

    nodes[2].open(1, signals)

    found = json.loads(bucket.get(AT + module.OPEN) or b"")
    assert found["machines"] == ["node-0", "node-2", "node-1"]


def test_a_node_whose_place_is_taken_leaves(make: Make, signals: Signals) -> None:
    """The service has begun another try, and has not ended this node."""
    old, new = make(1), make(1)
    old.announce()
    new.announce()

    with pytest.raises(Failure, match="another attempt has begun") as found:
        old.number(signals)

    assert found.value.code == STOPPED


def test_a_node_hears_when_the_first_has_ended(make: Make, signals: Signals) -> None:
    main, other = make(0, "127.0.0.2,127.0.0.3"), make(1, "127.0.0.2,127.0.0.3")
    other.announce()
    main.open(1, signals)
    assert other.number(signals) == 1
    other.look()
    assert not other.over

    main.finish()

    other.look()
    assert other.over


def test_a_node_that_comes_when_the_first_has_ended_leaves(make: Make, signals: Signals) -> None:
    """It would wait for a try that has been."""
    main, other = make(0, "127.0.0.2,127.0.0.3"), make(1, "127.0.0.2,127.0.0.3")
    other.announce()
    main.open(1, signals)
    main.finish()

    with pytest.raises(Failure, match="the first node has ended") as found:
        other.number(signals)

    assert found.value.code == STOPPED


def test_a_node_that_never_comes_is_not_waited_for_for_ever(
    make: Make, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STORE_MEET_S", 0.0)

    with pytest.raises(Failure, match="not all nodes joined") as found:
        make(0).open(1, signals)

    assert found.value.code == LOST


def test_nodes_that_are_all_started_alike_are_no_team(bucket: Bucket) -> None:
    """Slurm names them, too, and tells each its rank."""
    assert module.read(bucket, "runs/r/", {job_env.NODE_NAMES: "a,b"}) is None
