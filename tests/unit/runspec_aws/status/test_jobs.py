"""What jobs noted of their failures, beside what AWS Batch says of them."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_aws.attempts import AttemptKey, over
from runspec_aws.status.jobs import Jobs
from runspec_aws.store.objects import Objects
from runspec_aws.timing import CLOCK, DEFAULT
from runspec_jobs.provider import RemoteError, State, elastic_tasks
from runspec_jobs.provider.node_ends import NodeEnds
from tests.support.change_records import at, record

FAILED = {"statusReason": "Essential container in task exited", "container": {"exitCode": 75}}


NO_ENDS = NodeEnds({}, list, lambda _: [])  # of a run of an older version


class Store:
    """A bucket with the notes of one run; it counts how often it is listed."""

    prefix = "p"

    def __init__(self, *notes: str) -> None:
        self.notes = notes
        self.listed = 0

    def listing(self, prefix: str) -> Iterator[Mapping[str, Any]]:
        self.listed += 1
        return iter([{"Key": f"{prefix}{note}"} for note in self.notes])


def jobs(store: Any) -> Jobs:
    session: Any = SimpleNamespace(timing=DEFAULT, clock=CLOCK)
    return Jobs(session, store)


def test_the_store_is_asked_once_for_the_codes_of_all_nodes() -> None:
    """Most have noted nothing: nodes that are tried together end for another's failure."""
    store = Store("0-7/1-6")

    codes = jobs(store).recorded_codes("r")
    found = [
        over({"status": "FAILED", "attempts": [FAILED, FAILED]}, 0, rank, codes, NO_ENDS)[
            0
        ].exit_code
        for rank in range(50)
    ]

    assert found == [6 if rank == 7 else 75 for rank in range(50)]
    assert store.listed == 1


@pytest.mark.parametrize("there", [True, False])
def test_a_queue_that_another_machine_has_just_deleted_has_no_jobs(
    monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Two machines may run `destroy --site` at once: the list of jobs was an error for the second."""
    queue = {"jobQueueName": "q"} if there else None
    known = jobs(Store())
    known.session.valid = {("describe_job_queues", "q"): (0.0, {"jobQueueName": "q"})}
    monkeypatch.setattr("runspec_aws.status.jobs.described", lambda *_: queue)

    def refused(*_: object, **__: object) -> Iterator[Any]:
        raise RemoteError("list_jobs: JobQueue not found: q")

    monkeypatch.setattr(known, "listed_as", refused)

    with pytest.raises(RemoteError) if there else contextlib.nullcontext():
        known.refuse_if_used("q")
    assert known.session.valid == {}


def test_a_code_that_is_known_is_not_asked_for_again_and_a_new_try_is() -> None:
    store = Store("0-0/1-6")
    known = jobs(store)

    assert [known.recorded_codes("r")(AttemptKey(0, 0, 1)) for _ in range(3)] == [6, 6, 6]
    assert store.listed == 1
    store.notes = ("0-0/1-6", "0-0/2-7")
    assert known.recorded_codes("r")(AttemptKey(0, 0, 2)) == 7


def test_a_wish_is_in_the_store_before_a_child_is_told_to_end_and_each_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    own = jobs(SimpleNamespace(put_new=lambda content, *parts: done.append("/".join(parts))))
    own.kept.records["r"] = {"shape": "array", "nodes": 2, "sweep": [["n", ["a", "b", "c"]]]}
    own.remember("r", "j")
    monkeypatch.setattr(own, "job", lambda run: {"jobId": "j", "status": "RUNNING"})
    monkeypatch.setattr(
        own.poller, "describe", lambda ids: {i: {"status": "RUNNING"} for i in sorted(ids)}
    )
    monkeypatch.setattr(own, "terminate", lambda jobs, *more: done.extend(jobs))

    own.stop("r", {1})
    own.stop("r", {1})

    assert done == ["runs/r/stop/1", "j:2", "j:3"]


@pytest.mark.parametrize("shape", ["single", "array"])
def test_a_job_that_waits_says_what_for(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    own, job = jobs(Store()), {"jobId": "j", "status": "RUNNABLE"}
    own.kept.records["r"] = {"shape": shape, "nodes": 1, "sweep": []}
    own.remember("r", "j")
    monkeypatch.setattr(own, "job", lambda run: job)
    monkeypatch.setattr(own.poller, "known", lambda name: job)
    monkeypatch.setattr(own.poller, "describe", lambda ids, **_: dict.fromkeys(ids, job))

    found = own.status("r")

    assert (found.state, found.reason) == (State.WAITING, "waits for a machine (RUNNABLE)")


class Kept:
    """A bucket with what the nodes of an elastic job wrote down; it counts what it is asked."""

    prefix = "p"

    def __init__(self, kept: Mapping[str, bytes]) -> None:
        self.kept = {f"p/runs/r/{key}": content for key, content in kept.items()}
        self.asked: list[str] = []

    def list_objects_v2(self, **where: Any) -> Any:
        self.asked.append("list")
        keys = [{"Key": key} for key in self.kept if key.startswith(where["Prefix"])]
        return {"Contents": keys, "IsTruncated": False}

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=lambda **where: [getattr(self, operation)(**where)])

    def get_object(self, **where: Any) -> Any:
        self.asked.append("get")
        return {"Body": io.BytesIO(self.kept[where["Key"]])}


def elastic(kept: Mapping[str, bytes], **fields: Any) -> tuple[Jobs, Kept]:
    of = {"nodes": 3, "elastic": {"min": 1, "max": 3}, "sweep": [], **fields}
    bucket = Kept({**kept, "record.json": json.dumps(of).encode()})
    session: Any = SimpleNamespace(bucket="b", look=lambda service: bucket, clock=CLOCK)
    return Jobs(session, Objects(session, "p")), bucket


def test_changes_are_listed_once_for_each_task_and_read() -> None:
    """Besides, the run's record says that there are any. What else lies there is left alone."""
    kept = {at(n): record(n) for n in (1, 2, 10)} | {at(1, 1): record(1)}
    known, bucket = elastic(kept | {"elastic/0/state": b"{}"}, sweep=[["lr", ["1", "2"]]])

    found = known.kept.changes("r")

    assert [(one.task, one.generation, one.gap_s) for one in found] == [
        *((0, 1, 1.5), (0, 2, 1.5), (0, 10, 1.5), (1, 1, 1.5))
    ]
    assert sorted(bucket.asked) == ["get"] * 5 + ["list"] * 2


def test_of_very_many_changes_the_last_ones_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic_tasks, "CHANGES", 3)
    known, bucket = elastic({at(n): record(n) for n in range(1, 40)})

    assert [one.generation for one in known.kept.changes("r")] == [37, 38, 39]
    assert len(bucket.asked) == 1 + 1 + 3


def test_a_job_whose_nodes_stay_has_no_changes_and_its_store_is_not_listed() -> None:
    known, bucket = elastic({}, elastic=None)

    assert known.kept.changes("r") == []
    assert bucket.asked == ["get"]  # its record, which whoever asks how it is has read already
