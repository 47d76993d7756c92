"""Jobs run, are ended, and leave nothing behind."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_emulators.frame.processes import marked
from tests.emulators.aws.stand import Stand, until

pytestmark = pytest.mark.process

Make = Callable[..., Stand]


def test_a_job_runs_and_its_exit_code_decides(shared: Stand) -> None:
    good, bad = (shared.end(shared.sh(f"exit {code}")) for code in (0, 3))

    assert (good["status"], good["container"]["exitCode"]) == ("SUCCEEDED", 0)
    assert (bad["status"], bad["container"]["exitCode"]) == ("FAILED", 3)
    assert bad["statusReason"] == "Essential container in task exited"
    assert bad["attempts"][0]["container"]["exitCode"] == 3
    assert bad["createdAt"] <= bad["startedAt"] <= bad["stoppedAt"]


def test_a_job_goes_through_the_states_in_order(make: Make) -> None:
    stand = make(submitted_s=0.1, runnable_s=0.1, starting_s=0.1).ready()

    job_id = stand.sh("sleep 0.1")
    seen: list[str] = []
    while not seen or seen[-1] != "SUCCEEDED":
        status = stand.job(job_id)["status"]
        seen += [status] if [status] != seen[-1:] else []

    assert seen == ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]


def test_output_of_both_kinds_goes_to_the_log_line_by_line(shared: Stand) -> None:
    job = shared.end(shared.sh("echo one; echo two >&2; echo; printf three"))

    assert shared.lines(job) == ["one", "two", "three"]
    assert job["container"]["logStreamName"].startswith("definition/default/")


def test_lines_are_seen_while_the_job_runs(shared: Stand) -> None:
    job_id = shared.sh("echo early; sleep 60")

    job = shared.wrote(job_id, "early")

    assert job["status"] == "RUNNING"
    shared.batch.terminate_job(jobId=job_id, reason="enough")


def test_there_is_no_stream_before_the_first_line(shared: Stand) -> None:
    job = shared.end(shared.sh(":"))

    with pytest.raises(ClientError, match="The specified log stream does not exist"):
        shared.lines(job)


def test_a_job_gets_the_documented_environment_and_no_other(make: Make) -> None:
    stand = make(machine_env={"FROM_MACHINE": "1", "BOTH": "machine"}).ready()
    env = [{"name": "A", "value": "definition"}, {"name": "B", "value": "definition"}]
    definition = stand.define(["env"], environment=env)
    override = [{"name": "B", "value": "override"}, {"name": "BOTH", "value": "job"}]

    job = stand.end(stand.submit(definition, containerOverrides={"environment": override}))
    found = dict(line.split("=", 1) for line in stand.lines(job))

    place = {name: found.pop(name) for name in ("PATH", "HOME")}
    assert place["PATH"] == os.environ["PATH"]
    for name in ("ECS_CONTAINER_METADATA_URI_V4", "AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        assert found.pop(name).startswith(stand.server.url)
    assert found == {
        "A": "definition",
        "B": "override",
        "BOTH": "job",
        "FROM_MACHINE": "1",
        "AWS_REGION": "us-east-1",
        "AWS_BATCH_JOB_ID": job["jobId"],
        "AWS_BATCH_JOB_ATTEMPT": "1",
        "AWS_BATCH_JQ_NAME": "queue",
        "AWS_BATCH_CE_NAME": "ce",
    }


def test_parameters_replace_placeholders(shared: Stand) -> None:
    definition = shared.define(
        ["echo", "Ref::a", "Ref::b", "Ref::c"], parameters={"a": "1", "b": "2"}
    )

    job = shared.end(shared.submit(definition, parameters={"b": "two"}))

    assert shared.lines(job) == ["1 two Ref::c"]


def test_a_container_can_ask_about_itself(shared: Stand) -> None:
    job_id = shared.sh("echo $ECS_CONTAINER_METADATA_URI_V4; sleep 60")
    job = shared.reach(job_id, "RUNNING")
    uri = until(lambda: shared.wrote(job_id, shared.lines(job)[0]) and shared.lines(job)[0])

    with urllib.request.urlopen(uri, timeout=60) as answer:
        about = json.load(answer)
    with urllib.request.urlopen(f"{uri}/task", timeout=60) as answer:
        task = json.load(answer)

    assert about["Networks"][0]["IPv4Addresses"] == ["127.0.0.1"]
    assert task["TaskARN"] == job["container"]["taskArn"]
    shared.batch.terminate_job(jobId=job_id, reason="enough")


def test_a_missing_program_fails_as_cannot_start_container(shared: Stand) -> None:
    job = shared.end(shared.run("no-such-program"))

    assert job["statusReason"] == "Task failed to start"
    assert job["container"]["reason"].startswith("CannotStartContainerError")
    assert "exitCode" not in job["container"]


# Ending on request


def test_a_terminated_job_gets_sigterm_then_sigkill(shared: Stand) -> None:
    polite = shared.sh('trap "echo bye; exit 9" TERM; echo up; sleep 60 & wait')
    deaf = shared.sh('trap "" TERM; echo up; while :; do sleep 0.05; done')
    for job_id in (polite, deaf):
        shared.wrote(job_id, "up")
        shared.batch.terminate_job(jobId=job_id, reason="no more")

    ends = [shared.end(job_id) for job_id in (polite, deaf)]

    assert [job["statusReason"] for job in ends] == ["no more", "no more"]
    assert [job["container"]["exitCode"] for job in ends] == [9, 137]
    assert all(job["isTerminated"] and job["status"] == "FAILED" for job in ends)
    assert "bye" in shared.lines(ends[0])


@pytest.mark.parametrize("init,code", [(False, 137), (True, 143)])
def test_the_first_process_hears_sigterm_only_with_a_handler_or_an_init(
    shared: Stand, init: bool, code: int
) -> None:
    parameters = {"initProcessEnabled": init}
    definition = shared.define(["sleep", "60"], linuxParameters=parameters)
    job_id = shared.submit(definition)
    shared.reach(job_id, "RUNNING")

    shared.batch.terminate_job(jobId=job_id, reason="x")

    assert shared.end(job_id)["container"]["exitCode"] == code


def test_a_terminated_job_is_not_tried_again(shared: Stand) -> None:
    job_id = shared.sh("sleep 60", retryStrategy={"attempts": 5})
    shared.reach(job_id, "RUNNING")

    shared.batch.terminate_job(jobId=job_id, reason="x")

    assert len(shared.end(job_id)["attempts"]) == 1


@pytest.mark.parametrize("state", ["SUBMITTED", "RUNNABLE", "STARTING"])
def test_a_job_is_terminated_in_any_state(make: Make, state: str) -> None:
    stand = make(**{f"{state.lower()}_s": 60.0}).ready()
    job_id = stand.sh(":")
    stand.reach(job_id, state)

    stand.batch.terminate_job(jobId=job_id, reason="x")

    assert (stand.end(job_id)["status"], stand.truth(job_id)["starts"]) == ("FAILED", 0)


def test_cancel_ends_what_waits_and_nothing_else(make: Make) -> None:
    stand = make().ready()
    running = stand.sh("sleep 60")
    stand.reach(running, "RUNNING")
    stand.set(capacity="none")
    waiting = stand.sh(":")
    stand.reach(waiting, "RUNNABLE")

    for job_id in (running, waiting):
        stand.batch.cancel_job(jobId=job_id, reason="changed my mind")

    ended = stand.end(waiting)
    assert (ended["status"], ended["statusReason"]) == ("FAILED", "changed my mind")
    assert ended["isCancelled"] is True
    assert stand.job(running)["status"] == "RUNNING"


def test_a_pending_job_is_cancelled_after_what_it_waits_for(stand: Stand) -> None:
    first = stand.sh("sleep 2")
    second = stand.sh("echo never", dependsOn=[{"jobId": first}])
    stand.reach(second, "PENDING")

    stand.batch.cancel_job(jobId=second, reason="x")

    assert stand.job(second)["status"] == "PENDING"
    assert stand.end(second)["statusReason"] == "x"
    assert stand.job(first)["status"] == "SUCCEEDED"


# Dependencies, machines, secrets


def test_a_job_waits_for_others_and_fails_with_them(shared: Stand) -> None:
    good, bad = shared.sh("sleep 1.5"), shared.sh("sleep 0.2; exit 1")
    after_good = shared.sh(":", dependsOn=[{"jobId": good}])
    after_bad = shared.sh(":", dependsOn=[{"jobId": good}, {"jobId": bad}])

    assert shared.reach(after_good, "PENDING", "RUNNABLE")["status"] == "PENDING"
    assert shared.end(after_good)["startedAt"] >= shared.job(good)["stoppedAt"]
    assert shared.end(after_bad)["status"] == "FAILED"
    assert shared.truth(after_bad)["starts"] == 0


@pytest.mark.parametrize(
    "resources,wanted,reason",
    [
        ({}, ("2", "7000"), None),
        ({}, ("2", "8192"), "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"),
        ({}, ("4", "64"), "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"),
        ({"instanceTypes": ["optimal"]}, ("4", "8192"), None),
        ({"instanceTypes": ["z9.mega"]}, ("400", "8192000"), None),
        ({"instanceTypes": ["m5"], "maxvCpus": 2}, ("4", "64"), "MISCONFIGURATION:COMPUTE_ENV"),
    ],
)
def test_a_job_that_no_machine_can_hold_stays_runnable(
    make: Make, resources: dict[str, Any], wanted: tuple[str, str], reason: str | None
) -> None:
    stand = make()
    stand.environment(**{"maxvCpus": 1000, **resources})
    stand.queue()
    size = [{"type": t, "value": v} for t, v in zip(("VCPU", "MEMORY"), wanted, strict=True)]

    job_id = stand.submit(stand.define([":"], resourceRequirements=size))

    if reason is None:
        assert stand.end(job_id)
        return
    job = until(lambda: "statusReason" in stand.job(job_id) and stand.job(job_id))
    assert (job["status"], job["statusReason"].startswith(reason)) == ("RUNNABLE", True)


def test_jobs_wait_for_capacity(make: Make) -> None:
    stand = make(capacity="none").ready()
    job_id = stand.sh(":")
    job = until(lambda: "statusReason" in stand.job(job_id) and stand.job(job_id))
    assert job["statusReason"].startswith("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")

    stand.set(capacity="all")

    assert stand.end(job_id)["status"] == "SUCCEEDED"


def test_jobs_share_the_vcpus_of_an_environment(make: Make) -> None:
    stand = make()
    stand.environment(maxvCpus=2)
    stand.queue()
    size = [{"type": "VCPU", "value": "2"}, {"type": "MEMORY", "value": "64"}]
    definition = stand.define(["sleep", "0.1"], resourceRequirements=size)

    ends = [stand.end(job_id) for job_id in [stand.submit(definition), stand.submit(definition)]]

    assert ends[1]["startedAt"] >= ends[0]["stoppedAt"]


@pytest.mark.parametrize(
    ("secret", "role", "ends"),
    [
        ('{"username": "me", "password": "hush"}', True, "SUCCEEDED"),
        ('{"username": "me", "password": "hush"}', False, "FAILED"),
        ('{"username": "me"}', True, "FAILED"),
        ("hush", True, "FAILED"),
        (None, True, "FAILED"),
    ],
)
def test_an_image_of_a_private_registry_needs_a_login_that_can_be_read(
    secret: str | None, role: bool, ends: str, make: Make
) -> None:
    stand = make(secrets={} if secret is None else {"arn:login": secret}).ready()
    roles = {"executionRoleArn": "arn:aws:iam::123456789012:role/execution"} if role else {}
    login = {"credentialsParameter": "arn:login"}
    stand.define(["true"], name="private", repositoryCredentials=login, **roles)

    assert stand.end(stand.submit("private"))["status"] == ends


def test_secrets_come_from_the_settings_or_the_job_fails(make: Make) -> None:
    stand = make(secrets={"arn:known": "hush"}).ready()
    for name, source in (("known", "arn:known"), ("unknown", "arn:unknown")):
        secret = [{"name": "TOKEN", "valueFrom": source}]
        stand.define(["sh", "-c", "echo $TOKEN"], name=name, secrets=secret)

    known, unknown = (stand.end(stand.submit(name)) for name in ("known", "unknown"))

    assert stand.lines(known) == ["hush"]
    assert unknown["status"] == "FAILED"
    assert unknown["container"]["reason"].startswith("ResourceInitializationError: unable to pull")


def test_logs_go_where_the_definition_says(shared: Stand) -> None:
    def configured(name: str, **options: str) -> Any:
        log = {"logDriver": "awslogs", "options": {"awslogs-group": "mine", **options}}
        return shared.end(shared.submit(shared.define(["echo", "x"], name, logConfiguration=log)))

    without = configured("without")
    created = configured(
        "created", **{"awslogs-create-group": "true", "awslogs-stream-prefix": "mine"}
    )

    assert "The specified log group does not exist" in without["container"]["reason"]
    assert created["container"]["logStreamName"].startswith("mine/default/")
    (stream,) = shared.logs.describe_log_streams(logGroupName="mine")["logStreams"]
    assert stream["logStreamName"] == created["container"]["logStreamName"]


def test_too_long_overrides_are_accepted_and_the_job_fails(shared: Stand) -> None:
    job_id = shared.sh(":", containerOverrides={"command": ["x" * 8200]})

    job = shared.end(job_id)

    assert job["statusReason"] == "Container Overrides length must be at most 8192"


# Leaving nothing behind


def test_a_container_ends_with_its_first_process(shared: Stand) -> None:
    job = shared.end(shared.sh("setsid sleep 60 & sleep 60 & exit 0"))

    task = job["container"]["taskArn"].rpartition("/")[2]
    assert list(marked(task)) == []


def test_close_ends_every_process(make: Make) -> None:
    stand = make().ready()
    ids = [stand.sh('trap "" TERM; echo up; setsid sleep 60 & sleep 60') for _ in range(3)]
    for job_id in ids:
        stand.wrote(job_id, "up")
    assert list(marked(stand.server.url))

    stand.server.close()

    until(lambda: list(marked(stand.server.url)) == [])


def test_each_container_has_a_folder_of_its_own(make: Make, tmp_path: Path) -> None:
    stand = make().ready()

    lines = {stand.lines(stand.end(stand.sh("pwd; ls")))[0] for _ in range(2)}

    assert len(lines) == 2
    assert all(Path(line).is_relative_to(tmp_path) for line in lines)


# Jobs that wait for too long


CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"


def bounded(stand: Stand, reason: str, queue: str = "queue") -> None:
    """Give a queue a bound of 600 seconds for this reason."""
    limit = {"state": "RUNNABLE", "action": "CANCEL", "maxTimeSeconds": 600, "reason": reason}
    stand.batch.update_job_queue(jobQueue=queue, jobStateTimeLimitActions=[limit])


def test_a_job_that_is_stuck_for_too_long_is_cancelled_and_the_next_one_takes_its_place(
    make: Make,
) -> None:
    stand = make(capacity="none", limit_second_s=0.0005).ready()
    bounded(stand, CAPACITY)
    found = [stand.sh(":"), stand.sh(":")]

    ended = [stand.end(job_id) for job_id in found]

    reason = f"Canceled by JobStateTimeLimit action due to reason: {CAPACITY}"
    assert [(job["status"], job["statusReason"]) for job in ended] == [("FAILED", reason)] * 2
    assert ended[1]["stoppedAt"] - ended[0]["stoppedAt"] >= 250
    assert stand.truth(found[0])["starts"] == 0


def test_a_job_that_is_stuck_for_another_reason_stays(make: Make) -> None:
    stand = make(capacity="none", limit_second_s=0.0001).ready()
    bounded(stand, "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT")
    stand.queue("another")
    bounded(stand, CAPACITY, "another")
    job_id = stand.sh(":")
    until(lambda: stand.job(job_id).get("statusReason"))
    later = stand.batch.submit_job(jobName="later", jobQueue="another", jobDefinition="definition")

    stand.end(later["jobId"])

    assert stand.job(job_id)["status"] == "RUNNABLE"


def test_a_job_that_got_its_machine_in_time_is_let_be(make: Make) -> None:
    stand = make(capacity="none", limit_second_s=0.001).ready()
    bounded(stand, CAPACITY)
    job_id = stand.sh("sleep 1")
    until(lambda: stand.job(job_id).get("statusReason"))

    stand.set(capacity="all")

    assert stand.end(job_id)["status"] == "SUCCEEDED"
