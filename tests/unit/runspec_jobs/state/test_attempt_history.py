"""The record of a run keeps what its service forgets: each attempt with its times."""

from __future__ import annotations

import errno
import json
from decimal import Decimal
from pathlib import Path

import pytest

from runspec_jobs.errors import Damaged
from runspec_jobs.machines.spent import Outcome, Span, Spent
from runspec_jobs.provider import Attempt, NodeStatus, State, Status
from runspec_jobs.state import attempt_history, journal
from runspec_jobs.state.attempt_history import Keeper, merge_spans
from runspec_jobs.state.run_record import Record

RUNNING = Span(0, 0, 1, Outcome.RUNNING, 10.0, seen_s=20.0)
FACTS = {"machines": {"chosen": [], "prices": {"local": 3.6}, "spot": False}}


@pytest.fixture
def record(tmp_path: Path) -> Record:
    of = Record(tmp_path / "job-abc123")
    of.folder.mkdir()
    (of.folder / "facts.json").write_text(json.dumps(FACTS))
    plan = {"provider": "local", "run": of.run, "digest": "sha256:0", "steps": []}
    (of.folder / "plan.json").write_text(json.dumps(plan))
    opened = journal.Journal(of.folder)
    opened.add("born", run=of.run, digest="sha256:0")
    opened.close()
    return of


def status(state: State, *nodes: NodeStatus) -> Status:
    return Status(state, "", None, nodes)


def cost_of(of: Record) -> Spent:
    found = attempt_history.compute_cost(of)
    assert found is not None
    return found


def test_outcomes_are_told_from_the_attempts_of_a_node() -> None:
    over = (Attempt(1, 1), Attempt(2, None, reclaimed=True, began_s=1.0), Attempt(3, 143))
    nodes = [
        NodeStatus(0, 0, 3, State.CANCELLED, attempts=over),
        NodeStatus(0, 1, 1, State.FAILED, attempts=(Attempt(1, 9),)),
        NodeStatus(0, 2, 1, State.SUCCEEDED, attempts=(Attempt(1, None),)),
        NodeStatus(0, 3, 1, State.WAITING),
        NodeStatus(0, 4, 2, State.RUNNING, attempts=(Attempt(1, 1),), began_s=5.0),
    ]

    found = merge_spans([], status(State.RUNNING, *nodes), 7.0)

    assert [(*one[1:3], str(one.outcome), one.began_s, one.seen_s) for one in found] == [
        (0, 1, "failed", None, None),
        (0, 2, "reclaimed", 1.0, None),
        (0, 3, "cancelled", None, None),
        (1, 1, "failed", None, None),
        (2, 1, "succeeded", None, None),
        (4, 1, "failed", None, None),
        (4, 2, "running", 5.0, 7.0),
    ]


def test_attempts_that_a_service_forgets_are_kept() -> None:
    node = NodeStatus(0, 0, 2, State.RUNNING, attempts=(Attempt(1, None, reclaimed=True),))

    found = merge_spans([RUNNING], status(State.RUNNING, node), 30.0)
    later = merge_spans(found, status(State.GONE), 40.0)

    assert found[0] == Span(0, 0, 1, Outcome.RECLAIMED, 10.0, seen_s=20.0)
    assert [one.outcome for one in later] == [Outcome.RECLAIMED, Outcome.FAILED]
    assert [one.seen_s for one in later] == [20.0, 30.0]


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (status(State.CANCELLED), Outcome.CANCELLED),
        (status(State.SUCCEEDED), Outcome.SUCCEEDED),
        (status(State.FAILED, NodeStatus(0, 0, 1, State.CANCELLED)), Outcome.CANCELLED),
        (status(State.RUNNING, NodeStatus(0, 0, 2, State.WAITING)), Outcome.FAILED),
        (status(State.RUNNING), Outcome.RUNNING),
        (status(State.RUNNING, NodeStatus(0, 0, 1, State.WAITING)), Outcome.RUNNING),
    ],
)
def test_an_attempt_that_is_over_without_a_report_does_not_run(
    end: Status, outcome: Outcome
) -> None:
    assert merge_spans([RUNNING], end, 30.0) == [RUNNING._replace(outcome=outcome)]


def test_an_older_answer_does_not_make_an_ended_attempt_run_again() -> None:
    ended = Span(0, 0, 1, Outcome.SUCCEEDED, 10.0, 25.0)

    found = merge_spans([ended], status(State.RUNNING, NodeStatus(0, 0, 1, State.RUNNING)), 20.0)

    assert found == [ended]


def test_the_journal_has_each_attempt_and_the_sum_once(record: Record) -> None:
    over = NodeStatus(0, 0, 1, State.FAILED, attempts=(Attempt(1, 1, "", False, 1000.0, 4600.0),))

    with record.open_journal() as opened:
        attempt_history.keep(opened, status(State.FAILED, over), 5000.0)

    assert cost_of(record)[Outcome.FAILED].most_usd == Decimal("3.6")
    kept = record.read_memory().cost
    assert kept is not None
    assert (kept["most_usd"], kept["hours"]) == (3.6, 1.0)
    before = (record.folder / "journal.jsonl").read_bytes()
    with record.open_journal() as opened:
        attempt_history.keep(opened, status(State.FAILED, over), 6000.0)
    assert (record.folder / "journal.jsonl").read_bytes() == before, "nothing is new"


def test_following_writes_when_something_changes_and_else_now_and_then(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.time", lambda: now)
    keeper = Keeper(record, lambda: now)
    running = status(State.RUNNING, NodeStatus(0, 0, 1, State.RUNNING, began_s=50.0))
    keeper(running)
    assert record.read_memory().attempts == {}, "the run may end in a moment"
    seen = []

    for now in (100.0, 101.0, 399.0, 400.0):  # noqa: B007 - the clock of the keeper
        keeper(running)
        seen.append(attempt_history.read_spans(record.read_memory())[0].seen_s)
    lines = (record.folder / "journal.jsonl").read_text().splitlines()
    again = status(State.RUNNING, NodeStatus(0, 0, 2, State.RUNNING, began_s=160.0))
    keeper(again)
    assert len(record.read_memory().attempts) == 1, "the record was written just now"
    now = 410.0
    keeper(again)

    assert seen == [100.0, 100.0, 100.0, 400.0]
    assert [json.loads(line)["event"] for line in lines] == ["born", "attempts", "seen"]
    assert len(record.read_memory().attempts) == 2


def test_recording_attempts_does_not_wait_for_the_lock_of_the_run(record: Record) -> None:
    running = status(State.RUNNING, NodeStatus(0, 0, 1, State.RUNNING, began_s=50.0))

    with record.open_journal():
        attempt_history.look(record, running, 60.0)

    assert record.read_memory().attempts == {}


def test_a_run_whose_prices_cannot_be_read_keeps_its_attempts(record: Record) -> None:
    (record.folder / "facts.json").write_text("{")
    over = NodeStatus(0, 0, 1, State.FAILED, attempts=(Attempt(1, 1, "", False, 0.0, 1.0),))

    with record.open_journal() as opened:
        attempt_history.keep(opened, status(State.FAILED, over), 2.0)

    assert len(attempt_history.read_spans(record.read_memory())) == 1
    with pytest.raises(Damaged):
        attempt_history.compute_cost(record)


def test_a_job_that_was_suspended_goes_on() -> None:
    waiting = status(State.WAITING, NodeStatus(0, 0, 1, State.WAITING))
    running = status(State.RUNNING, NodeStatus(0, 0, 1, State.RUNNING, began_s=10.0))

    found = merge_spans(merge_spans([RUNNING], waiting, 100.0), running, 7200.0)

    assert found == [RUNNING._replace(seen_s=7200.0)]


@pytest.mark.parametrize(
    "machines", [{"chosen": [{"name": "a"}]}, {"chosen": [1]}, {"prices": 3}, ["x"]]
)
def test_prices_that_are_not_as_written_are_damage(record: Record, machines: object) -> None:
    (record.folder / "facts.json").write_text(json.dumps({"machines": machines}))

    with pytest.raises(Damaged, match="prices"):
        attempt_history.compute_cost(record)


def test_an_outcome_of_a_later_version_is_a_failure(record: Record) -> None:
    later = {"task": 0, "node": 0, "attempt": 1, "outcome": "hibernated", "began_s": 0.0}
    with record.open_journal() as opened:
        opened.add("attempts", attempts=[{**later, "ended_s": 3600.0}])

    assert cost_of(record)[Outcome.FAILED].most_usd == Decimal("3.6")


def test_attempts_that_are_not_as_written_are_damage(record: Record) -> None:
    with record.open_journal() as opened:
        opened.add("attempts", attempts=[{"task": 0, "node": 0, "attempt": 1, "outcome": [1]}])

    with pytest.raises(Damaged, match="attempts"):
        attempt_history.compute_cost(record)


def test_who_follows_a_run_goes_on_when_the_disk_is_full(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    keeper = Keeper(record, lambda: now)
    running = status(State.RUNNING, NodeStatus(0, 0, 1, State.RUNNING, began_s=50.0))

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    now = 100.0
    with monkeypatch.context() as patched:
        patched.setattr("os.write", full)
        keeper(running)
    assert record.read_memory().attempts == {}
    now = 500.0
    keeper(running)

    assert len(record.read_memory().attempts) == 1


def test_a_run_may_cost_more_while_it_runs_or_was_never_seen(record: Record) -> None:
    node = NodeStatus(0, 0, 1, State.RUNNING, began_s=50.0)
    over = node._replace(state=State.SUCCEEDED, attempts=(Attempt(1, 0, "", False, 50.0, 60.0),))
    found = [attempt_history.may_grow(record.read_memory())]
    with record.open_journal() as opened:
        opened.add("begun", step="job")
    found.append(attempt_history.may_grow(record.read_memory()))

    for one in (status(State.RUNNING, node), status(State.SUCCEEDED, over)):
        attempt_history.look(record, one, 70.0)
        found.append(attempt_history.may_grow(record.read_memory()))

    assert found == [False, True, True, False]
