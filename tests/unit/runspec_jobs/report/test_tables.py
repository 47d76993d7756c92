"""The tables of reports."""

from __future__ import annotations

from runspec_jobs.report.tables import Table, make_drawn_table


def test_drawn_parameters_have_a_row_for_each_task() -> None:
    tasks = [{"lr": "0.1", "seed": "1"}, {"lr": "0.2", "seed": "2"}]

    assert make_drawn_table(tasks) == Table(
        ("task", "lr", "seed"), ((0, "0.1", "1"), (1, "0.2", "2"))
    )
    assert make_drawn_table([]) == Table(("task",), ())
