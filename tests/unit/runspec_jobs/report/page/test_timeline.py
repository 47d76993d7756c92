"""The phases and attempts of a run over time."""

from __future__ import annotations

import pytest

from runspec_jobs.provider import Attempt, NodeStatus, State
from runspec_jobs.report.page import timeline
from runspec_jobs.report.page.timeline import Clock, Lane
from tests.support.pages import parsed
from tests.support.report_runs import attempt, node, when

CLOCK = Clock(1000.0, 1010.0, 2000.0, 3000.0)


def timed(number: int, began_s: float | None, ended_s: float | None, code: int = 0) -> Attempt:
    return Attempt(number, code, "", False, began_s, ended_s)


def test_a_run_was_prepared_then_waited_then_ran() -> None:
    nodes = [NodeStatus(0, 0, 1, State.SUCCEEDED, "", 0, (timed(1, 1100, 1900),))]

    found = timeline.list_phases(CLOCK, nodes, ended=True)

    assert [tuple(bar) for bar in found] == [
        ("prepared", 1000, 1010),
        ("waited", 1010, 1100),
        ("ran", 1100, 1900),
    ]


def test_a_run_that_goes_on_ran_until_now() -> None:
    nodes = [NodeStatus(0, 0, 2, State.RUNNING, "", None, (timed(1, 1100, 1200, 1),))]

    assert timeline.list_phases(CLOCK, nodes, ended=False)[-1].ended_s == CLOCK.now_s


def test_a_timeline_leaves_out_unknown_and_contradicting_times() -> None:
    early = [NodeStatus(0, 0, 1, State.SUCCEEDED, "", 0, (timed(1, 1005, 1900),))]

    assert [b.what for b in timeline.list_phases(CLOCK, early, ended=True)] == ["prepared", "ran"]
    adopted = Clock(1000.0, None, 2000.0, 3000.0)
    assert timeline.list_phases(adopted, [], ended=True) == ()


@pytest.mark.parametrize(
    ("of", "word"),
    [
        (node(0, 0, State.SUCCEEDED, attempt(1, 0, 9)), "succeeded"),
        (node(0, 0, State.FAILED, attempt(1, 0, 9, 3)), "failed"),
        (node(0, 0, State.CANCELLED, attempt(1, 0, 9, 143)), "cancelled"),
        (node(0, 0, State.RUNNING, attempt(1, 0, 9, None, reclaimed=True), attempt=2), "reclaimed"),
        (node(0, 0, State.RUNNING, attempt(1, 0, 9, 1), attempt=2), "failed"),
        (node(0, 0, State.GONE, attempt(1, 0, 9, 0)), "succeeded"),
    ],
)
def test_an_attempt_came_to_one_thing(of: NodeStatus, word: str) -> None:
    assert timeline.judge_attempt(of, of.attempts[0]) == word


def test_of_many_nodes_those_that_failed_are_shown_first() -> None:
    nodes = [node(n, 0, State.FAILED if n == 70 else State.SUCCEEDED) for n in range(90)]

    assert [one.task for one in timeline.choose_nodes(nodes, 3)] == [0, 1, 70]


def test_the_picture_has_a_bar_for_each_attempt_in_its_place() -> None:
    of = node(3, 1, State.SUCCEEDED, attempt(1, 0, 100, 1), attempt(2, 150, 200))

    found = parsed(f"\n{timeline.draw_lanes(timeline.make_lanes((), [of], (2, 4)))}")

    bars = [one.attrib for one in found.iter("rect") if one.attrib["x"].endswith("%")]
    assert [(b["class"], b["x"], b["width"]) for b in bars] == [
        ("bar failed", "0%", "50%"),
        ("bar succeeded", "75%", "25%"),
    ]
    assert "task 3 node 1" in "".join(found.itertext())


def test_a_timeline_without_times_is_not_drawn() -> None:
    unknown = node(0, 0, State.SUCCEEDED, timed(1, None, None))

    assert timeline.draw_lanes([Lane("run", ())]) == ""
    assert timeline.make_lanes((), [unknown], (1, 1)) == []
    (row,) = timeline.make_attempt_table([unknown], (1, 1), when).rows
    assert row == ("task 0", 1, "succeeded", 0, None, None, "")
