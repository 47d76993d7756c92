"""Jobs: how they end, what prepares nodes for them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError

from tests.emulators.azure_batch.stand import Stand, until


def ended(stand: Stand, name: str = "job") -> str:
    until(lambda: stand.client.get_job(name).state == "completed")
    return str(stand.client.get_job(name).execution_info.termination_reason)


def test_an_empty_job_that_ends_with_its_tasks_ends_at_once(stand: Stand) -> None:
    stand.job("empty", onAllTasksComplete="terminatejob")

    assert ended(stand, "empty") == "AllTasksComplete"
    with pytest.raises(ResourceExistsError, match="JobCompleted"):
        stand.client.create_task("empty", {"id": "t", "commandLine": "/bin/true"})


@pytest.mark.parametrize("tasks", [0, 1])
def test_a_job_whose_tasks_are_complete_ends_once_it_is_set_to(stand: Stand, tasks: int) -> None:
    for _ in range(tasks):
        stand.sh("true")
        stand.end()
    assert stand.client.get_job("job").state == "active"

    stand.client.update_job("job", {"onAllTasksComplete": "terminatejob"})

    assert ended(stand) == "AllTasksComplete"


def test_a_job_set_to_end_with_its_tasks_does(stand: Stand) -> None:
    stand.sh("until test -e go; do sleep 0.01; done")
    stand.client.update_job("job", {"onAllTasksComplete": "terminatejob"})
    stand.reach("task", "running")
    assert stand.client.get_job("job").state == "active"

    stand.client.terminate_task("job", "task")

    assert ended(stand) == "AllTasksComplete"
    with pytest.raises(ResourceExistsError, match="JobCompleted"):
        stand.client.update_job("job", {"priority": 1})


def test_a_job_that_ends_with_its_tasks_cannot_be_kept_from_it(stand: Stand) -> None:
    stand.sh("sleep 66")
    stand.client.update_job("job", {"onAllTasksComplete": "terminatejob"})

    with pytest.raises(HttpResponseError, match="cannot be changed back"):
        stand.client.update_job("job", {"onAllTasksComplete": "noaction"})


def test_a_terminated_job_ends_what_runs_and_leaves_what_waits(stand: Stand) -> None:
    stand.sh("echo begun; sleep 67")
    stand.sh("true", "later")
    stand.wrote("begun")

    stand.raw("POST", "/jobs/job/terminate", {"terminateReason": "because"})

    assert ended(stand) == "because"
    assert stand.task()["executionInfo"]["failureInfo"]["code"] == "TaskEnded"
    assert stand.task("later")["state"] == "active"


def test_a_job_that_takes_too_long_is_terminated(stand: Stand) -> None:
    stand.job("short", constraints={"maxWallClockTime": "PT0.1S"})

    assert ended(stand, "short") == "MaxWallClockTimeExpiry"


def test_a_deleted_job_is_deleting_and_then_gone_with_its_tasks(make: Callable[..., Stand]) -> None:
    stand = make(delete_s=2.0).ready()
    stand.sh("sleep 68")

    poller = stand.client.begin_delete_job("job", polling_interval=0.01)

    assert stand.client.get_job("job").state == "deleting"
    with pytest.raises(ResourceExistsError, match="JobBeingDeleted"):
        stand.job()
    poller.result()
    with pytest.raises(ResourceNotFoundError, match="JobNotFound"):
        stand.client.get_job("job")
    stand.job()


def test_a_job_exists_once(stand: Stand) -> None:
    with pytest.raises(ResourceExistsError, match="JobExists"):
        stand.job("JOB")


def test_a_job_needs_an_existing_pool(stand: Stand) -> None:
    with pytest.raises(ResourceNotFoundError, match="PoolNotFound"):
        stand.job("other", "none")


@pytest.mark.parametrize("code,state", [(0, "active"), (1, "completed"), (5, "active")])
def test_a_failed_task_ends_its_job_where_exit_conditions_say_so(
    stand: Stand, code: int, state: str
) -> None:
    stand.job("other", onTaskFailure="performexitoptionsjobaction")
    conditions = {"exitCodes": [{"code": 5, "exitOptions": {"jobAction": "none"}}]}
    line = f"/bin/sh -c 'exit {code}'"
    body = {"id": "t", "commandLine": line, "exitConditions": conditions}

    stand.client.create_task("other", body)

    until(lambda: stand.client.get_task("other", "t").state == "completed")
    until(lambda: stand.client.get_job("other").state == state)


def test_a_failure_ends_the_job_when_its_retries_are_used_up_and_what_waits_never_runs(
    stand: Stand,
) -> None:
    """Its own running tasks are ended. A code that is told comes before a file that was not taken."""
    stand.job("other", onTaskFailure="performexitoptionsjobaction")
    conditions = {
        "exitCodes": [{"code": 77, "exitOptions": {"jobAction": "terminate"}}],
        "default": {"jobAction": "none"},
    }
    where = {"containerUrl": "http://127.0.0.1:9/none?sig=x"}
    lost = {
        "filePattern": "../std*.txt",
        "destination": {"container": where},
        "uploadOptions": {"uploadCondition": "taskcompletion"},
    }
    lines = {"a": "exit 5", "b": "exit 77", "c": "touch ../ran"}
    for name, line in lines.items():
        body = {"id": name, "commandLine": f"/bin/sh -c '{line}'", "exitConditions": conditions}
        more = {"constraints": {"maxTaskRetryCount": 2}, "outputFiles": [lost]}
        stand.client.create_task("other", {**body, **(more if name == "b" else {})})

    until(lambda: stand.client.get_job("other").state == "completed")

    assert stand.client.get_job("other").execution_info.termination_reason == "TaskFailed"
    a, b, c = (stand.client.get_task("other", name) for name in lines)
    assert (a.execution_info.exit_code, b.execution_info.exit_code) == (5, 77)
    assert b.execution_info.retry_count == 2
    assert (c.state, c.execution_info.start_time) == ("active", None)


def test_a_task_acts_on_its_job_only_where_the_job_lets_it(stand: Stand) -> None:
    stand.job("other")
    conditions = {"default": {"jobAction": "none"}}

    with pytest.raises(HttpResponseError, match="InvalidPropertyValue"):
        stand.client.create_task(
            "other", {"id": "t", "commandLine": "true", "exitConditions": conditions}
        )


def test_a_preparation_task_runs_once_on_each_node_before_the_tasks_there(stand: Stand) -> None:
    line = "/bin/sh -c 'echo x >> $AZ_BATCH_NODE_SHARED_DIR/prepared'"
    stand.job("other", jobPreparationTask={"id": "prep", "commandLine": line})
    for name in ("a", "b"):
        body = {"id": name, "commandLine": "/bin/sh -c 'cat $AZ_BATCH_NODE_SHARED_DIR/prepared'"}
        stand.client.create_task("other", body)

    until(lambda: stand.client.get_task("other", "b").state == "completed")

    assert b"".join(stand.client.download_task_file("other", "b", "stdout.txt")) == b"x\n"
    (found,) = list(stand.client.list_job_preparation_and_release_task_status("other"))
    assert found.job_preparation_task_execution_info.exit_code == 0


def test_a_node_that_could_not_be_prepared_gets_no_task_of_the_job(
    make: Callable[..., Stand],
) -> None:
    stand = make()
    stand.pool()
    stand.job(jobPreparationTask={"commandLine": "/bin/false"})
    stand.sh("true")

    until(lambda: stand.truth()["attempts"] and not stand.truth()["running"])

    assert stand.task()["state"] == "active"
    assert stand.truth()["starts"] == 1


def test_a_disabled_job_starts_nothing_until_it_is_enabled(stand: Stand) -> None:
    stand.raw("POST", "/jobs/job/disable", {"disableTasks": "requeue"})
    until(lambda: stand.client.get_job("job").state == "disabled")
    stand.sh("true")
    assert stand.task()["state"] == "active"

    stand.raw("POST", "/jobs/job/enable")

    stand.end()


def test_jobs_of_higher_priority_go_first(make: Callable[..., Stand]) -> None:
    stand = make()
    stand.pool(targetDedicatedNodes=0)
    for name, priority in (("low", 1), ("high", 2)):
        stand.job(name, priority=priority)
        stand.client.create_task(name, {"id": "t", "commandLine": "/bin/true"})

    stand.raw("POST", "/pools/pool/resize", {"targetDedicatedNodes": 1})

    until(lambda: stand.client.get_task("low", "t").state == "completed")
    started = [stand.client.get_task(n, "t").execution_info.start_time for n in ("high", "low")]
    assert started == sorted(started)


def test_counts_tell_tasks_by_state(stand: Stand) -> None:
    stand.sh("true", "good")
    stand.sh("false", "bad")
    stand.end("good")
    stand.end("bad")

    counts = stand.client.get_job_task_counts("job").task_counts

    assert (counts.active, counts.running, counts.completed) == (0, 0, 2)
    assert (counts.succeeded, counts.failed) == (1, 1)


# Lists


def test_lists_come_in_pages(make: Callable[..., Stand]) -> None:
    stand = make(page=2)
    stand.pool(targetDedicatedNodes=0)
    stand.job()
    for number in range(5):
        stand.sh("true", f"t{number}")

    found = [t.id for t in stand.client.list_tasks("job")]

    assert found == [f"t{number}" for number in range(5)]
    calls = [c for c in stand.server.control("GET", "calls") if c["operation"] == "Task_List"]
    assert len(calls) == 3


def test_lists_can_be_filtered_and_cut_down(stand: Stand) -> None:
    for name in ("a1", "a2", "b1"):
        stand.sh("true" if name != "a2" else "false", name)
        stand.end(name)

    def ids(text: str) -> list[str]:
        return [t.id for t in stand.client.list_tasks("job", filter=text, select=["id"])]

    assert ids("startswith(id, 'a')") == ["a1", "a2"]
    assert ids("state eq 'completed' and executionInfo/exitCode ne 0") == ["a2"]
    assert ids("id eq 'a1' or id eq 'b1'") == ["a1", "b1"]
    (one,) = stand.client.list_tasks("job", filter="id eq 'a1'", select=["id", "state"])
    assert set(one.as_dict()) == {"id", "state"}
    with pytest.raises(HttpResponseError, match="InvalidQueryParameterValue"):
        ids("id like 'a'")


def test_a_list_lags_behind_what_a_get_shows(make: Callable[..., Stand]) -> None:
    stand = make(list_lag_s=60.0).ready()
    stand.sh("true")

    assert stand.end()["state"] == "completed"
    assert list(stand.client.list_tasks("job")) == []
    assert list(stand.client.list_jobs()) == []
    stand.set(list_lag_s=0.0)
    assert [t.state for t in stand.client.list_tasks("job")] == ["completed"]
