"""The tables of reports."""

from __future__ import annotations

import pytest

from runspec_jobs.report.tables import Table, describe_measurement, make_drawn_table
from runspec_jobs.spec.metric import Metric


def test_drawn_parameters_have_a_row_for_each_task() -> None:
    tasks = [{"lr": "0.1", "seed": "1"}, {"lr": "0.2", "seed": "2"}]

    assert make_drawn_table(tasks) == Table(
        ("task", "lr", "seed"), ((0, "0.1", "1"), (1, "0.2", "2"))
    )
    assert make_drawn_table([]) == Table(("task",), ())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "the pattern loss=(.+) in the log, last"),
        ({"file": "out/train.log"}, "the pattern loss=(.+) in out/train.log, last"),
    ],
)
def test_a_report_says_where_its_metric_was_read(fields: dict[str, str], said: str) -> None:
    metric = Metric.model_validate(
        {"name": "loss", "goal": "min", "pattern": "loss=(.+)", **fields}
    )

    assert describe_measurement(metric) == said
