"""How runs are, by what the service says of their tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from azure.core import exceptions

from runspec_azure.batch import timing
from runspec_azure.batch.cleanup import Stops
from runspec_azure.batch.status import Tasks
from runspec_azure.timing import CLOCK
from runspec_jobs.provider import RemoteError, State, Status
from runspec_jobs.provider.node_ends import exited
from runspec_objects.store import Entry

RUN = "n-abc123"
Shown = dict[str, Any]


class Service:
    """What a session and a store answer, from tables."""

    def __init__(self, *tasks: Shown, job: Shown | None = None, **more: Any) -> None:
        self.tasks, self.calls = tasks, 0
        self.job_ = {"id": RUN, "state": "active", **(job or {})}
        self.pool = more.pop("pool", {"id": "p", "allocationState": "steady", "nodes": []})
        self.notes: list[str] = more.pop("notes", [])
        self.now = more.pop("now", {one["id"]: one for one in tasks})  # lists may lag
        self.begun: list[str] = more.pop("begun", [])
        self.stops: list[str] = more.pop("stops", [])
        self.listed, self.ends = 0, list[str]()
        if "recorded" in more:  # the run is one of which each node records its end
            self.ends, more["ends"] = more.pop("recorded"), True
        self.record = {"count": len(tasks), "nodes": 1, "pool": "p", **more}

    def look(self, operation: str, path: Mapping[str, str], query: Any = None) -> Any:
        self.calls += 1
        if operation == "Job_Get" and self.job_["state"] == "none":
            cause = exceptions.ResourceNotFoundError("no")
            cause.status_code = 404
            raise RemoteError("no") from cause
        if operation == "Task_Get" and path["taskId"] not in self.now:
            cause = exceptions.ResourceNotFoundError("no")
            cause.status_code = 404
            raise RemoteError("no") from cause
        answers = {"Job_Get": self.job_, "Pool_Get": self.pool}
        return answers.get(operation) or self.now[path["taskId"]]

    def pages(self, operation: str, path: Any = None, query: Any = None) -> list[Any]:
        self.calls += 1
        return list(self.tasks) if operation == "Task_List" else self.pool["nodes"]

    def read(self, *parts: str) -> bytes:
        return json.dumps(self.record).encode()

    def key(self, *parts: str) -> str:
        return "/".join(parts)

    def names(self, prefix: str) -> list[str]:
        if "/ends/" not in prefix:
            return [entry.key.removeprefix(prefix) for entry in self.listing(prefix)]
        self.listed += 1
        return self.ends

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        return [None for _ in keys]

    def listing(self, prefix: str) -> list[Entry]:
        kept = self.begun if "/tries/" in prefix else self.notes
        kept = self.stops if "/stop/" in prefix else kept
        return [Entry(f"{prefix}{name}", 1, 100.0 + n) for n, name in enumerate(kept)]


def status(service: Service) -> Status:
    return Tasks(service, service).status(RUN)  # type: ignore[arg-type] # what it asks of both


def task(state: str, number: int = 0, **info: Any) -> Shown:
    return {"id": f"task-{number:05}", "state": state, "executionInfo": info}


GOOD = {"result": "success", "exitCode": 0}
BAD = {"result": "failure", "exitCode": 7, "failureInfo": {"code": "FailureExitCode"}}


def test_a_run_has_succeeded_when_all_its_tasks_have() -> None:
    found = status(Service(task("completed", 0, **GOOD), task("completed", 1, **GOOD)))

    assert (found.state, found.exit_code, len(found.nodes)) == (State.SUCCEEDED, 0, 2)


def test_a_run_of_which_tasks_are_missing_goes_on() -> None:
    found = status(Service(task("completed", 0, **GOOD), count=2))

    assert found.state is State.WAITING


def test_the_first_task_that_failed_speaks_for_a_run() -> None:
    found = status(Service(task("completed", 0, **GOOD), task("completed", 1, **BAD)))

    assert (found.state, found.exit_code) == (State.FAILED, 7)
    assert found.reason == "exited with code 7"


def test_a_failure_of_the_service_is_told_in_words() -> None:
    info = {
        "result": "failure",
        "failureInfo": {"code": "BlobAccessDenied", "message": "denied", "details": []},
    }

    found = status(Service(task("completed", 0, **info)))

    assert "signed_for may have passed" in found.reason


UNKEPT = {"result": "failure", "failureInfo": {"code": "FileUploadAccessDenied", "message": "no"}}


def test_a_job_that_went_well_has_succeeded_where_the_services_copy_of_its_log_failed() -> None:
    """Each node keeps its own."""
    found = status(Service(task("completed", 0, **UNKEPT, exitCode=0)))

    assert (found.state, found.exit_code) == (State.SUCCEEDED, 0)
    assert "cannot upload the task's output" in found.reason
    assert found.nodes[0].attempts[0].reason == ""


@pytest.mark.parametrize(("code", "said"), [(3, "code 3"), (77, "the job's signature has expired")])
def test_a_code_is_told_before_a_copy_that_failed(code: int, said: str) -> None:
    found = status(Service(task("completed", 0, **UNKEPT, exitCode=code)))

    assert (found.state, found.exit_code) == (State.FAILED, code)
    assert said in found.reason and "upload" not in found.reason


def test_a_run_is_cancelled_when_its_job_says_so_and_not_all_was_well() -> None:
    told = {"state": "completed", "executionInfo": {"terminateReason": "cancelled by runspec"}}

    ended = {"result": "failure", "failureInfo": {"code": "TaskEnded"}}
    found = status(Service(task("completed", 0, **ended), task("completed", 1, **BAD), job=told))
    assert found.state is State.CANCELLED
    assert [n.state for n in found.nodes] == [State.CANCELLED, State.FAILED]
    assert status(Service(task("completed", 0, **GOOD), job=told)).state is State.SUCCEEDED


def test_a_run_whose_job_is_not_there_or_leaves_is_gone() -> None:
    for state in ("none", "deleting"):
        assert status(Service(task("running"), job={"state": state})).state is State.GONE


def test_a_machine_that_was_taken_away_is_no_failure_of_the_job() -> None:
    info = {**BAD, "retryCount": 1, "requeueCount": 1}

    begun = ["1", "2", "3"]
    (node,) = status(Service(task("completed", 0, **info), notes=["0-0/2-3"], begun=begun)).nodes

    told = [(a.number, a.exit_code, a.reclaimed) for a in node.attempts]
    assert told == [(1, None, True), (2, 3, False), (3, 7, False)]


def test_attempts_that_another_one_followed_have_the_times_of_what_their_agent_wrote() -> None:
    """The service has those of the last attempt alone, and of one whose machine was lost nobody knows the end."""
    times = {"startTime": "1970-01-01T00:08:20Z", "endTime": "1970-01-01T00:10:00Z"}
    info = {**GOOD, "retryCount": 1, "requeueCount": 1, **times}

    begun = ["1", "2", "3"]
    (node,) = status(Service(task("completed", 0, **info), notes=["0-0/2-3"], begun=begun)).nodes

    told = [(a.number, a.exit_code, a.began_s, a.ended_s) for a in node.attempts]
    assert told == [(1, None, 100.0, None), (2, 3, 101.0, 100.0), (3, 0, 500.0, 600.0)]


@pytest.mark.parametrize(
    ("begun", "told"),
    [(["1", "2"], "it was killed, or the store was full"), ([], "or its image did not start it")],
)
def test_an_attempt_without_a_record_has_the_likeliest_reason(begun: list[str], told: str) -> None:
    """Another one followed: of the last attempt alone, the service says how it ended."""
    service = Service(task("completed", 0, **GOOD, retryCount=1), begun=begun)

    node = status(service).nodes[0]

    assert told in node.attempts[0].reason
    assert (node.attempts[0].exit_code, node.attempts[0].reclaimed) == (None, False)


def test_a_machine_that_was_taken_away_before_the_job_began_is_no_try() -> None:
    (node,) = status(Service(task("running", 0, requeueCount=1), begun=["1"])).nodes

    assert (node.attempt, node.attempts) == (1, ())


def test_75_is_no_code_of_the_job_itself() -> None:
    info = {"result": "failure", "exitCode": 75}

    found = status(Service(task("completed", 0, **info), notes=["0-0/1-9"]))

    assert found.exit_code == 9


def test_why_a_task_waits_is_told_by_its_pool() -> None:
    node = {"id": "n1", "state": "starttaskfailed", "startTaskInfo": {"exitCode": 1}}
    cases: dict[str, Shown] = {
        "core quota is used up": {
            "resizeErrors": [{"code": "AccountCoreQuotaReached"}],
            "nodes": [],
        },
        "failed its start task (exited with code 1)": {"nodes": [node]},
        "did not start in time": {"resizeErrors": [{"code": "AllocationTimedout"}], "nodes": []},
        "spot machines is used up": {
            "resizeErrors": [{"code": "AccountSpotCoreQuotaReached"}],
            "nodes": [],
        },
        "set max_nodes: 100": {
            "resizeErrors": [{"code": "CommunicationEnabledPoolReachedMaxVMCount"}],
            "nodes": [],
        },
        "p cannot evaluate its autoscale formula: AutoScalingFormulaEvaluationError: no": {
            "autoScaleRun": {
                "error": {"code": "AutoScalingFormulaEvaluationError", "message": "no"}
            },
            "nodes": [],
        },
        "which the pool has requested": {"allocationState": "resizing", "nodes": []},
        "node n1 is starting": {"nodes": [{"id": "n1", "state": "starting"}]},
    }
    for words, pool in cases.items():
        found = status(Service(task("active"), pool={"id": "p", **pool}))

        assert found.state is State.WAITING
        assert words in found.reason


def test_a_recent_status_is_not_requested_again() -> None:
    service = Service(task("running"))
    tasks = Tasks(service, service)  # type: ignore[arg-type] # what it asks of both
    for _ in range(5):
        tasks.status(RUN)

    assert timing.DEFAULT.fresh_s > 1
    assert service.calls == 2


def done(number: int = 0) -> Shown:
    return task("completed", number, exitCode=0, result="success")


OVER = {"state": "completed", "executionInfo": {"terminateReason": "AllTasksComplete"}}
BY_A_TASK = {"state": "completed", "executionInfo": {"terminateReason": "TaskFailed"}}


def test_a_task_refused_by_the_store_explains_the_end_of_the_sweep() -> None:
    """Not who was ended with it, nor a program that has the same code of its own."""
    ended = {"result": "failure", "exitCode": 137, "failureInfo": {"code": "TaskEnded"}}
    own = {**BAD, "exitCode": 75}

    found = status(
        Service(
            task("completed", 0, **ended),
            task("completed", 1, **own),
            task("completed", 2, **{**BAD, "exitCode": 77}),
            task("active", 3),
            job=BY_A_TASK,
            notes=["1-0/1-77"],
        )
    )

    assert (found.state, found.exit_code) == (State.FAILED, 77)
    assert found.reason.startswith("task 2 exited with code 77: the store refused the job's access")
    assert found.reason.endswith("so Azure Batch has terminated the other tasks")
    reasons = [node.reason for node in found.nodes]
    assert reasons[1] == "exited with code 77"
    assert reasons[3] == "its job ended before it started"


@pytest.mark.parametrize("listed", [[], [task("running")], [task("active")]])
def test_a_list_that_is_older_than_the_end_of_the_job_does_not_make_it_fail(
    listed: list[Shown],
) -> None:
    service = Service(*listed, job=OVER, now={"task-00000": done()}, count=1)

    assert status(service).state is State.SUCCEEDED


def test_logs_are_of_the_tasks_that_have_ended_whatever_a_list_says() -> None:
    service = Service(task("active"), job=OVER, now={"task-00000": done()}, count=1)
    tasks = Tasks(service, service)  # type: ignore[arg-type] # what it asks of both

    tasks.status(RUN)

    assert [one["state"] for one in tasks.all(RUN)] == ["completed"]


def test_many_tasks_that_a_list_does_not_show_are_waited_for() -> None:
    now = {one["id"]: one for one in (done(number) for number in range(150))}
    service = Service(job=OVER, now=now, count=150)

    assert status(service).state is State.WAITING
    assert service.calls < 110


def test_a_job_that_ended_before_a_task_was_there_has_failed() -> None:
    service = Service(done(), job=OVER, count=2)

    assert status(service).state is State.FAILED


# Tasks that were stopped

SWEEP: Shown = {"sweep": [["n", ["a", "b"]]]}
LEFT: Shown = {"result": "failure", "exitCode": 143, "failureInfo": {"code": "FailureExitCode"}}
ENDED: Shown = {"result": "failure", "failureInfo": {"code": "TaskEnded", "message": "ended"}}


@pytest.mark.parametrize("how", [LEFT, ENDED])
def test_a_run_has_succeeded_when_all_have_that_were_not_stopped(how: Shown) -> None:
    """Whether it left by itself, or the service ended it."""
    tasks = task("completed", 0, **GOOD), task("completed", 1, **how)

    found = status(Service(*tasks, stops=["1"], **SWEEP))

    assert (found.state, found.reason) == (State.SUCCEEDED, "1 tasks were stopped")
    assert [node.state for node in found.nodes] == [State.SUCCEEDED, State.CANCELLED]
    assert found.nodes[1].exit_code == how.get("exitCode")


def test_a_task_that_was_stopped_while_it_waited_had_no_attempt() -> None:
    at = {"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T00:01:00Z"}
    tasks = [
        task("completed", 0, **GOOD),
        task("completed", 1, **ENDED, **at),
        task("completed", 2, **ENDED),
    ]

    found = status(Service(*tasks, stops=["1", "2"], **SWEEP))

    assert [len(node.attempts) for node in found.nodes[1:]] == [1, 0]


def test_a_task_that_ended_before_its_stop_keeps_its_end() -> None:
    tasks = task("completed", 0, **GOOD), task("completed", 1, **GOOD)

    found = status(Service(*tasks, stops=["1"], **SWEEP))

    assert [node.state for node in found.nodes] == [State.SUCCEEDED, State.SUCCEEDED]


def test_a_task_that_failed_by_itself_fails_the_run_though_another_was_stopped() -> None:
    tasks = task("completed", 0, **BAD), task("completed", 1, **LEFT)

    found = status(Service(*tasks, stops=["1"], **SWEEP))

    assert (found.state, found.exit_code) == (State.FAILED, 7)


def test_a_stop_that_came_after_the_last_look_counts_at_the_end() -> None:
    """The wish is there before the task ends; what is known of it may be older."""
    service = Service(task("completed", 0, **BAD), task("running", 1), **SWEEP)
    tasks = Tasks(service, service)  # type: ignore[arg-type] # what it asks of both
    tasks.status(RUN)

    service.stops, service.tasks = (
        ["0", "1"],
        (task("completed", 0, **BAD), task("completed", 1, **LEFT)),
    )
    tasks.known.pop(("tasks", RUN))

    assert tasks.status(RUN).state is State.CANCELLED


class Written:
    """What is put into the store, and what is asked to end."""

    timing, clock = timing.DEFAULT, CLOCK

    def __init__(self, *tasks: Shown) -> None:
        self.tasks, self.done = tasks, list[tuple[str, ...]]()

    def key(self, *parts: str) -> str:
        return "/".join(parts)

    def put_new(self, key: str, content: bytes) -> bool:
        self.done.append(("put", key))
        return True

    def all(self, run: str) -> tuple[Shown, ...]:
        return self.tasks

    def terminate(self, run: str, name: str) -> None:
        self.done.append(("end", name))

    def forget(self) -> None:
        pass


def stopping(record: Shown, *tasks: Shown) -> tuple[Stops, Written]:
    there = Written(*tasks)
    return Stops(there, there), there  # type: ignore[arg-type] # what it asks of both


HEEDS: Shown = {**SWEEP, "stop_s": 5}


def test_a_stop_request_is_stored_before_waiting_tasks_are_ended() -> None:
    tasks = task("active", 0), task("running", 1), task("completed", 2, **GOOD), task("active", 3)
    stops, there = stopping(HEEDS, *tasks)

    stops.stop(RUN, HEEDS, {0, 1, 2})
    stops.stop(RUN, HEEDS, {1})

    puts = [("put", f"runs/{RUN}/stop/{n}") for n in range(3)]
    assert there.done == [*puts, ("end", "task-00000")]


def test_a_task_that_ignores_a_stop_request_is_terminated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stops, there = stopping(HEEDS, task("running", 0))
    stops.stop(RUN, HEEDS, {0})
    monkeypatch.setattr(Written, "timing", timing.Timing(listens_s=0.0))
    stops.stop(RUN, HEEDS, {0})

    other, elsewhere = stopping(SWEEP, task("running", 0))
    other.stop(RUN, SWEEP, {0})

    ended = [("put", f"runs/{RUN}/stop/0"), ("end", "task-00000")]
    assert (there.done, elsewhere.done) == (ended, ended)


def test_a_job_whose_nodes_stay_has_no_changes_and_its_store_is_not_listed() -> None:
    service = Service(task("completed", 0, **GOOD))
    service.listing = None  # type: ignore[assignment, method-assign] # nobody calls it

    assert Tasks(service, service).kept.changes(RUN) == []  # type: ignore[arg-type] # what it asks of both


# What agents have recorded


def test_a_success_without_an_end_record_is_a_failure_with_the_likeliest_reason() -> None:
    """The image's ENTRYPOINT, or nothing, ran."""
    tasks = (task("completed", 0, **GOOD), task("completed", 1, **GOOD))

    found = status(Service(*tasks, recorded=["0/1/0-0-program"]))

    assert (found.state, found.exit_code) == (State.FAILED, None)
    assert "ENTRYPOINT did not pass the command on" in found.reason
    assert [node.state for node in found.nodes] == [State.SUCCEEDED, State.FAILED]
    assert found.nodes[1].attempts[0].reason == found.reason


def test_a_recorded_success_counts() -> None:
    service = Service(task("completed", 0, **GOOD), recorded=["0/1/0-3-program", "0/2/0-0-program"])
    tasks = Tasks(service, service)  # type: ignore[arg-type] # what it asks of both

    found = [tasks.status(RUN) for _ in range(3)][-1]

    assert (found.state, found.exit_code, service.listed) == (State.SUCCEEDED, 0, 1)


def test_attempts_have_the_time_of_their_setup() -> None:
    info = {**GOOD, "retryCount": 1}
    recorded = ["0/1/0-3-setup", "0/1/0-setup-5", "0/2/0-0-program", "0/2/0-setup-12"]

    found = status(Service(task("completed", 0, **info), recorded=recorded))

    assert [one.setup_s for one in found.nodes[0].attempts] == [5, 12]


@pytest.mark.parametrize("code", [75, 77, 124, 137, 143])
def test_a_programs_own_code_is_its_own(code: int) -> None:
    info = {**BAD, "exitCode": 1}

    found = status(Service(task("completed", 0, **info), recorded=[f"0/1/0-{code}-program"]))

    assert (found.state, found.exit_code) == (State.FAILED, code)
    assert found.reason == exited(code)


def test_a_program_that_ends_like_a_reclaimed_one_was_not_reclaimed() -> None:
    """Though its task was requeued before, as its machine was."""
    info = {**GOOD, "requeueCount": 1, "retryCount": 1}
    recorded = ["0/2/0-143-program", "0/3/0-0-program"]
    begun = ["1", "2", "3"]

    found = status(Service(task("completed", 0, **info), recorded=recorded, begun=begun))

    assert [(a.reclaimed, a.exit_code) for a in found.nodes[0].attempts] == [
        (True, None),
        (False, 143),
        (False, 0),
    ]


@pytest.mark.parametrize(
    "code, began_s, kept", [(69, 101, False), (69, 100.9, True), (7, 101, True), (0, 101, True)]
)
def test_the_record_of_an_earlier_attempt_does_not_count_for_the_last_one(
    code: int, began_s: float, kept: bool
) -> None:
    """With signed URLs, the attempts share one, here of 100 s. Its time has no fractions of seconds."""
    began = datetime.fromtimestamp(began_s, UTC).isoformat()
    info = {**(BAD if code else GOOD), "exitCode": code, "startTime": began, "retryCount": 1}
    service = Service(task("completed", 0, **info), ends="signed", notes=["signed"])
    service.read_all = lambda keys: [b"1 7 program\n" for _ in keys]  # type: ignore[method-assign]

    found = status(service)

    assert found.exit_code == found.nodes[0].attempts[-1].exit_code == (7 if kept else code)
    assert ("the agent recorded no end" in found.reason) is not kept


def test_a_timeout_is_told_with_its_seconds() -> None:
    info = {**BAD, "exitCode": 124}

    found = status(
        Service(task("completed", 0, **info), recorded=["0/1/0-124-timeout"], timeout_s=6)
    )

    assert (found.exit_code, found.reason) == (124, "timeout: not done after 6 s")


@pytest.mark.parametrize("took_s, late", [(143, False), (144, True), (146, True)])
@pytest.mark.parametrize(
    "names, is_told", [([], True), (["0/1/0-137-stopped"], True), (["0/1/0-137-program"], False)]
)
def test_an_attempt_that_the_service_ended_at_its_limit_is_a_timeout(
    took_s: int, late: bool, names: list[str], is_told: bool
) -> None:
    """The code TaskEnded has many meanings, so the time that the attempt took decides."""
    times = {
        "startTime": "1970-01-01T00:00:10Z",
        "endTime": f"1970-01-01T00:0{(10 + took_s) // 60}:{(10 + took_s) % 60:02}Z",
    }
    info = {"result": "failure", "exitCode": 137, "failureInfo": {"code": "TaskEnded"}, **times}

    found = status(Service(task("completed", 0, **info), recorded=names, timeout_s=6, limit_s=146))

    said = "timeout: not done after 6 s; Azure Batch ended it at its own limit of 146 s"
    assert found.reason.startswith(said) is (late and is_told)
    assert found.nodes[0].attempts[0].reason == found.reason
