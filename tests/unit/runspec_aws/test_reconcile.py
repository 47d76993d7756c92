"""What reads leave alone at AWS Batch, `reconcile` ends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from runspec_aws.cleanup import SECOND, Reconciler
from runspec_aws.status.jobs import Jobs
from runspec_aws.status.nodes import CANCELLED
from runspec_aws.timing import CLOCK, DEFAULT, Clock
from runspec_jobs.provider import RemoteError, State
from runspec_jobs.provider.elastic_tasks import ELASTIC, NOT_NEEDED

RUN = "job-abc123"
HEADERS: Mapping[str, Any] = {"ResponseMetadata": {"HTTPHeaders": {}}}


class World:
    """A session, AWS Batch and a bucket in one: jobs by id, objects by key."""

    prefix = "p"
    timing = DEFAULT
    clock = CLOCK
    lists_children = False

    def __init__(self, jobs: Mapping[str, Mapping[str, Any]], **record: Any) -> None:
        self.jobs = {
            name: {"jobId": name, "jobArn": name, "jobName": RUN, **job}
            for name, job in jobs.items()
        }
        record = {"queue": "q", "shape": "single", "nodes": 1, "sweep": [], **record}
        self.objects = {"record.json": json.dumps(record).encode()}
        self.ended: list[tuple[str, str]] = []
        self.refused: list[Mapping[str, str]] = []
        self.asked: list[int] = []
        self.listed = 0

    def look(self, service: str) -> World:
        return self

    def get_paginator(self, operation: str) -> World:
        assert operation == "list_jobs"
        return self

    def paginate(self, **how: Any) -> Iterator[Mapping[str, Any]]:
        self.listed += 1
        listed = [job for name, job in self.jobs.items() if self.lists_children or ":" not in name]
        yield {"jobSummaryList": listed}

    def describe_jobs(self, jobs: list[str]) -> Mapping[str, Any]:
        return {"jobs": [self.jobs[name] for name in jobs if name in self.jobs], **HEADERS}

    def terminate_job(self, jobId: str, reason: str) -> None:  # noqa: N803 - the SDK's name
        self.ended.append((jobId, reason))

    def terminate_jobs(self, jobs: list[str], reason: str) -> Mapping[str, Any]:
        self.asked.append(len(jobs))
        self.ended += [(name, reason) for name in jobs]
        return {"errors": [error for error in self.refused if error["job"] in jobs]}

    def read(self, *parts: str) -> bytes | None:
        return self.objects.get("/".join(parts).split("/", 2)[2])

    def names(self, folder: str) -> list[str]:
        begin = folder.split("/", 2)[2]
        return [key.removeprefix(begin) for key in self.objects if key.startswith(begin)]

    def put_new(self, content: bytes, *parts: str) -> None:
        self.objects["/".join(parts).split("/", 2)[2]] = content

    def listing(self, prefix: str) -> Iterator[Any]:
        return iter(())


def jobs(world: World) -> Jobs:
    return Jobs(world, world)  # type: ignore[arg-type] # what it asks of both


@pytest.mark.parametrize(
    ("claim", "remembered", "kept"),
    [(None, None, "a"), (None, "b", "b"), ("c", None, "c"), ("c", "b", "c")],
)
def test_of_several_jobs_one_is_used_and_only_reconcile_ends_the_others(
    claim: str | None, remembered: str | None, kept: str
) -> None:
    """The one that has claimed the run, or that is in the journal, or the oldest."""
    world = World({name: {"status": "RUNNABLE", "createdAt": ord(name)} for name in "cba"})
    own = jobs(world)
    if claim is not None:
        world.objects["claim"] = claim.encode()
    if remembered is not None:
        own.remember(RUN, remembered)

    found = own.find(RUN)
    status = own.status(RUN)

    assert found is not None and found["jobId"] == kept
    assert status.state is State.WAITING
    assert world.ended == [], "a read has ended a job"

    assert Reconciler(own).reconcile(RUN) == ["terminated 2 jobs of the same run"]
    assert sorted(world.ended) == [(name, SECOND) for name in "abc" if name != kept]


def test_120_jobs_are_ended_by_three_requests_and_the_first_that_is_refused_is_named() -> None:
    world = World({})

    jobs(world).terminate([f"a:{n}" for n in range(120)], "enough")

    assert world.asked == [50, 50, 20]
    assert world.ended == [(f"a:{n}", "enough") for n in range(120)]
    world.refused = [{"job": "a:1", "code": "ServerException", "message": "later"}]
    with pytest.raises(RemoteError, match="terminate_jobs: a:1: ServerException: later"):
        jobs(world).terminate([f"a:{n}" for n in range(120)], "enough")
    assert world.asked[3:] == [50, 50, 20]


def test_reconcile_repeats_a_request_for_the_refused_jobs_alone() -> None:
    ids = ["a", *(f"b{n}" for n in range(60))]
    world = World({name: {"status": "RUNNABLE", "createdAt": n} for n, name in enumerate(ids)})
    world.refused = [{"job": "b1", "code": "ServerException", "message": "later"}]
    now = [0.0]
    world.clock = Clock(monotonic=lambda: now[0])
    reconciler = Reconciler(jobs(world))

    with pytest.raises(RemoteError, match="b1"):
        reconciler.reconcile(RUN)
    first = len(world.ended)
    now[0] = 60.0
    world.refused = []
    reconciler.reconcile(RUN)

    assert first == 60
    assert world.ended[first:] == [("b1", SECOND)]


def test_a_job_that_is_listed_late_is_ended_too() -> None:
    """There are two listings, and no more."""
    world = World({"a": {"status": "RUNNABLE"}})
    now = [0.0]
    world.clock = Clock(monotonic=lambda: now[0])

    own = Reconciler(jobs(world))

    first = own.reconcile(RUN)
    world.jobs["b"] = {**world.jobs["a"], "jobId": "b", "createdAt": 1}
    early = own.reconcile(RUN)
    now[0] = 60.0
    second = [own.reconcile(RUN) for _ in range(3)]

    assert (first, early, second) == ([], [], [["terminated 1 job of the same run"], [], []])
    assert (world.ended, world.listed) == ([("b", SECOND)], 2)


def test_a_job_that_was_listed_is_not_looked_for_again() -> None:
    """A list of the jobs of a queue may have many pages."""
    world = World({"a": {"status": "RUNNING", "createdAt": 1}})
    own = jobs(world)
    Reconciler(own).reconcile(RUN)
    listed = world.listed

    job = own.job(RUN)

    assert job is not None and job["jobId"] == "a"
    assert world.listed == listed


def test_jobs_that_have_ended_are_left_alone() -> None:
    world = World({"a": {"status": "SUCCEEDED"}, "b": {"status": "FAILED", "createdAt": 1}})

    assert Reconciler(jobs(world)).reconcile(RUN) == []

    assert world.ended == []


@pytest.mark.parametrize("claim", [None, "a"])
@pytest.mark.parametrize("child", ["a:0", "a:9999", "a#1"])
def test_children_that_a_list_contains_are_not_second_jobs(child: str, claim: str | None) -> None:
    """Stock moto lists the children of an array job by the name of their job."""
    found = {"status": "RUNNABLE", "createdAt": 1}
    world = World({child: found, "a": {**found, "createdAt": 2}})
    world.lists_children = True
    if claim is not None:
        world.objects["claim"] = claim.encode()
    own = jobs(world)

    assert [job["jobId"] for job in own.all_of(RUN)] == ["a"]
    assert Reconciler(own).reconcile(RUN) == []
    assert world.ended == []


def elastic(phase: str) -> World:
    counts = {"arrayProperties": {"statusSummary": {"SUCCEEDED": 1, "RUNNABLE": 1}}}
    found: dict[str, Mapping[str, Any]] = {
        "a": {"status": "PENDING", **counts},
        "a:0": {"status": "SUCCEEDED"},
        "a:1": {"status": "RUNNABLE"},
        "a:2": {"status": "RUNNING"},
    }
    world = World(found, shape="array", nodes=3, elastic={"min": 1, "max": 3})
    state = {"format": ELASTIC, "phase": phase, "code": 0, "why": ""}
    world.objects["elastic/0/state"] = json.dumps(state).encode()
    return world


def test_nodes_that_wait_for_machines_are_ended_when_their_job_is_over_and_not_by_a_read() -> None:
    world = elastic("done")
    own = jobs(world)

    assert own.status(RUN).state is State.RUNNING
    assert world.ended == [], "a read has ended a job"

    one = Reconciler(own)
    assert list(one.reconcile(RUN)) == [
        "terminated 1 job that waited for machines, because the elastic job is over"
    ]
    assert (list(one.reconcile(RUN)), world.ended) == ([], [("a:1", NOT_NEEDED)])


def test_nodes_may_wait_as_long_as_their_job_goes_on() -> None:
    world = elastic("running")

    assert list(Reconciler(jobs(world)).reconcile(RUN)) == []

    assert world.ended == []


def test_a_run_that_is_not_there_needs_nothing() -> None:
    world = World({})
    world.objects.clear()

    assert list(Reconciler(jobs(world)).reconcile(RUN)) == []


def killed(limit: int) -> World:
    """Return a sweep of 7 tasks: one has failed, was stopped and was cancelled each, and 0 and 3 have no agent left."""
    found: dict[str, Mapping[str, Any]] = {
        "a": {"status": "PENDING", "arrayProperties": {"statusSummary": {"FAILED": 5}}},
        **{f"a:{n}": {"status": "FAILED", "statusReason": "it exited"} for n in range(4)},
        "a:4": {"status": "FAILED", "statusReason": CANCELLED},
        "a:5": {"status": "RUNNABLE"},
        "a:6": {"status": "RUNNING"},
    }
    sweep = [["n", [str(n) for n in range(7)]]]
    world = World(found, shape="array", sweep=sweep, max_failed=limit)
    world.objects |= {"failed/1": b"", "stop/2": b""}
    return world


@pytest.mark.parametrize("knows", [False, True])
def test_tasks_that_were_killed_with_their_agents_count_for_max_failed(knows: bool) -> None:
    world = killed(3)
    own = jobs(world)
    if knows:
        own.status(RUN)
        assert "failed/0" not in world.objects, "a read has counted a task"

    Reconciler(own).reconcile(RUN)
    Reconciler(jobs(world)).reconcile(RUN)

    counted = {key for key in world.objects if key.startswith("failed/")}
    assert counted == {"failed/0", "failed/1", "failed/3"}
    assert {name for name, _ in world.ended} == {"a:5", "a:6"}


def test_tasks_that_end_when_max_failed_is_reached_do_not_count() -> None:
    world = killed(1)

    Reconciler(jobs(world)).reconcile(RUN)

    assert {key for key in world.objects if key.startswith("failed/")} == {"failed/1"}
