"""The metric of a run that is followed is watched, and its best value kept in the journal."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_jobs.errors import UsageError
from runspec_jobs.logs import measure, metric_watch
from runspec_jobs.logs.follow import Line
from runspec_jobs.provider import NodeStatus, State, Status
from runspec_jobs.spec.metric import Metric
from runspec_jobs.state import journal

LOSS = Metric.model_validate({"name": "loss", "goal": "min", "pattern": "loss=([0-9.]+)"})


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[journal.Journal]:
    found = journal.Journal(tmp_path)
    found.add("born", at=1.0)
    yield found
    found.close()


def read(watch: metric_watch.MetricWatch, *lines: tuple[int, bytes]) -> None:
    for task, text in lines:
        watch.read_line(Line(task, 0, text))


def test_each_number_is_heard_and_the_best_task_is_kept_once(
    kept: journal.Journal, tmp_path: Path
) -> None:
    heard: list[tuple[int, float]] = []

    with metric_watch.watch_metric(LOSS, None, lambda *found: heard.append(found)) as watch:
        read(watch, (0, b"loss=3"), (1, b"loss=1"), (1, b"hello"), (1, b"loss=1"), (0, b"loss=2"))
        watch.keep(kept)
        watch.keep(kept)

    assert heard == [(0, 3.0), (1, 1.0), (1, 1.0), (0, 2.0)]
    assert watch.find_best() == metric_watch.Best("loss", 1.0, 1)
    text = (tmp_path / "journal.jsonl").read_text()
    assert text.count('"metric"') == 1
    found = journal.read(tmp_path).metric
    assert found is not None
    assert (found["name"], found["task"], found["value"]) == ("loss", 1, 1.0)


def test_a_log_without_a_number_records_no_metric(kept: journal.Journal) -> None:
    with metric_watch.watch_metric(LOSS, None, lambda *_: None) as watch:
        read(watch, (0, b"hello"))
        watch.keep(kept)

    assert watch.find_best() is None
    assert kept.memory.metric is None


def test_the_best_task_is_taken_back_once_it_has_failed(kept: journal.Journal) -> None:
    with metric_watch.watch_metric(LOSS, None, lambda *_: None) as watch:
        read(watch, (0, b"loss=3"), (1, b"loss=1"))
        watch.keep(kept)
        watch.note_states(Status(State.FAILED, nodes=(NodeStatus(1, 0, 1, State.FAILED),)))
        watch.keep(kept)

    assert watch.find_best() == metric_watch.Best("loss", 3.0, 0)
    assert kept.memory.metric is not None and kept.memory.metric["task"] == 0


def test_a_run_whose_tasks_have_all_failed_has_no_best(
    kept: journal.Journal, tmp_path: Path
) -> None:
    with metric_watch.watch_metric(LOSS, None, lambda *_: None) as watch:
        read(watch, (0, b"loss=3"))
        watch.keep(kept)
        watch.note_states(Status(State.FAILED, nodes=(NodeStatus(0, 0, 1, State.FAILED),)))
        watch.keep(kept)

    assert watch.find_best() is None
    assert kept.memory.metric is None and journal.read(tmp_path).metric is None


def test_a_pattern_that_takes_too_long_is_stopped_also_while_lines_are_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit of the outer one holds although the inner one has the timer."""

    def slow(text: str) -> None:
        while True:
            pass

    began = time.process_time()

    outer = measure.Bounded(0.1, "metric.pattern")
    with (
        outer,
        measure.Bounded(0.1, "--grep"),
        pytest.raises(UsageError, match=r"metric.pattern took more than"),
    ):
        outer.call(slow, "")

    assert time.process_time() - began < 10


def test_a_limited_search_leaves_the_signal_of_its_timer_as_it_was() -> None:
    before = signal.getsignal(signal.SIGVTALRM)

    with measure.Bounded(), measure.Bounded():
        assert signal.getsignal(signal.SIGVTALRM) != before

    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
