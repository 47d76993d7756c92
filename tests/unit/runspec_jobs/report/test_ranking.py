"""The ranking of tasks: what has failed is never the best, and stops nothing."""

from __future__ import annotations

import pytest

from runspec_jobs.provider import State
from runspec_jobs.report import ranking, tables
from runspec_jobs.report.metric_extraction import Measured, choose_number, measure_file
from runspec_jobs.report.ranking import Task
from runspec_jobs.spec.metric import Metric

LOSS = Metric.model_validate(
    {"name": "loss", "goal": "min", "pattern": "loss (.*)", "stop": {"below": 0}}
)


def task(number: int, state: State, value: float | None) -> Task:
    return Task(number, {}, str(state), Measured(value, "" if value is not None else "none"))


@pytest.mark.parametrize("bad", [State.FAILED, State.CANCELLED, State.GONE])
def test_a_task_that_ended_badly_is_ranked_after_all_others_without_a_place(bad: State) -> None:
    tasks = [
        task(0, bad, -9),
        task(1, State.RUNNING, 3),
        task(2, bad, None),
        task(3, State.WAITING, None),
        task(4, State.SUCCEEDED, 2),
        task(5, bad, -10),
    ]

    found = ranking.rank_tasks(LOSS, tasks)

    assert [(p.place, p.task.number) for p in found] == [
        (1, 4), (2, 1), (None, 3), (None, 5), (None, 0), (None, 2),
    ]  # fmt: skip


def test_of_failed_tasks_alone_none_is_the_best() -> None:
    found = ranking.rank_tasks(LOSS, [task(0, State.FAILED, 1.0), task(1, State.FAILED, 2.0)])

    assert [p.place for p in found] == [None, None]


def test_the_row_of_a_failed_task_with_a_number_says_why_it_has_no_place() -> None:
    (placed,) = ranking.rank_tasks(LOSS, [task(0, State.FAILED, -5)])

    assert ranking.write_row(placed)["why"] == "the task failed"
    assert tables.make_ranking_table(LOSS, [placed]).rows == (
        (None, 0, -5, "failed", "the task failed"),
    )


@pytest.mark.parametrize("state", [one for one in State if one is not State.SUCCEEDED])
def test_a_task_that_has_not_succeeded_does_not_meet_the_stop_condition(state: State) -> None:
    assert ranking.find_reached(LOSS, [task(0, state, -5), task(1, State.SUCCEEDED, 1)]) is None


def test_the_best_task_that_has_succeeded_meets_the_stop_condition() -> None:
    tasks = [task(0, State.FAILED, -9), *(task(n, State.SUCCEEDED, -n) for n in (1, 3, 2))]

    found = ranking.find_reached(LOSS, tasks)

    assert found is not None and found.number == 3


@pytest.mark.parametrize("text", ["[1e999, NaN]", "[Infinity]", "[-Infinity]", f"[{'9' * 400}]"])
def test_a_number_that_is_not_finite_is_no_metric(text: str) -> None:
    metric = Metric.model_validate({"name": "m", "goal": "max", "file": "o/x.json", "key": "v"})

    assert measure_file(metric, f'{{"v": {text}}}').value is None


def test_a_median_of_the_largest_numbers_is_finite() -> None:
    metric = LOSS.model_copy(update={"take": "median"})

    assert choose_number(metric, [1.7e308, 1.6e308], "none").value == pytest.approx(1.65e308)
