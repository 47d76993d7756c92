"""The line about a run at the bottom of a terminal."""

from __future__ import annotations

import pytest

from runspec_jobs.cli.live.about import AboutRun
from runspec_jobs.diagnostics.render import count_columns
from runspec_jobs.diagnostics.terminal_text import strip_sequences
from runspec_jobs.provider import Attempt, NodeStatus, State, Status

WAITS = Status(State.WAITING, "the queue has 3 jobs before this one, and no machine is free")


def about(*found: Status, coloured: bool = False, tasks: int = 1) -> AboutRun:
    made = AboutRun(100.0, tasks, "loss", coloured=coloured, clock=lambda: 175.0)
    for one in found:
        made.status(one)
    return made


def running(*states: State, began_s: float | None = 170.0) -> Status:
    times = [began_s if state is State.RUNNING else None for state in states]
    nodes = [
        NodeStatus(0, i, 1, state, began_s=times[i]) for i, state in enumerate(states)
    ]  # fmt: skip
    return Status(State.RUNNING, "", None, tuple(nodes))


def test_each_state_has_its_age_and_what_is_known() -> None:
    metric = about(running(State.RUNNING, State.RUNNING, State.SUCCEEDED))
    metric.metric(0, 0.25)

    assert about().text(80) == "starting 1 min 15 s | Ctrl-C detaches"
    assert about(WAITS).text(100) == f"waiting 1 min 15 s: {WAITS.reason}"
    assert about(running(State.WAITING)).text(80).startswith("starting 0 s")
    assert about(running(State.RUNNING)).text(80) == "running 5 s | Ctrl-C detaches"
    assert about(running(State.SUCCEEDED)).text(80).startswith("ending")
    assert metric.text(80) == (
        "running 5 s | loss 0.25 | 2 of 3 nodes run, 1 ended | Ctrl-C detaches"
    )


def test_a_sweep_whose_first_tasks_have_ended_still_runs_and_keeps_its_age() -> None:
    """The status has no nodes of tasks that have not begun."""
    first = NodeStatus(0, 0, 1, State.SUCCEEDED, attempts=(Attempt(1, 0, "", False, 110.0, 150.0),))
    between = Status(State.WAITING, "", None, (first,))
    next_one = NodeStatus(1, 0, 1, State.RUNNING, began_s=170.0)
    then = Status(State.RUNNING, "", None, (first, next_one))

    assert about(between, tasks=2).text(80).startswith("running 1 min 5 s")
    assert about(between, then, tasks=2).text(80).startswith("running 1 min 5 s")
    assert about(between, tasks=1).text(80).startswith("ending 1 min 5 s")


def test_the_task_of_a_sweep_is_named() -> None:
    found = about(running(State.RUNNING), tasks=2)
    found.metric(1, 0.25)

    assert found.text(80).startswith("running 5 s | loss 0.25 (task 1) | ")


@pytest.mark.parametrize("width", [20, 39, 79, 119])
def test_the_line_about_a_run_fits_the_terminal(width: int) -> None:
    many = about(running(*[State.RUNNING] * 12))
    many.metric(0, 0.25)

    for one in (about(WAITS), many, about(WAITS, coloured=True)):
        shown = strip_sequences(one.text(width))
        assert count_columns(shown) <= width
        assert shown.split()[0] in ("waiting", "running")
    assert many.text(39).startswith("running 5 s | loss 0.25")


def test_the_state_is_coloured() -> None:
    assert (
        about(running(State.RUNNING), coloured=True)
        .text(80)
        .startswith("\x1b[32mrunning\x1b[0m 5 s")
    )
    assert "\x1b" not in about(running(State.RUNNING)).text(80)
