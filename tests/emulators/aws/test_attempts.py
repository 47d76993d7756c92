"""Failed attempts are followed by others, or not, as the rules say."""

from __future__ import annotations

import re
import sys
import urllib.error
from collections.abc import Callable
from typing import Any

import pytest

from runspec_aws import job
from runspec_aws.decision import decide
from runspec_aws.options import AwsOptions
from runspec_emulators.aws.batch import retries
from runspec_emulators.aws.batch.jobs import Attempt
from tests.emulators.aws.stand import Stand, until
from tests.support.aws.specs import PROFILE, spec

pytestmark = pytest.mark.process


def attempt(**members: Any) -> Attempt:
    return Attempt(1, "task", "arn", "i-1", "arn", "127.0.0.1", **members)


HOST = attempt(status_reason="Host EC2 (instance i-1) terminated.")
EXIT_1 = attempt(exit_code=1, status_reason="Essential container in task exited")
INTERRUPTED = attempt(exit_code=137, status_reason="Your Spot Task was interrupted.")
PULL = attempt(reason="CannotPullContainerError: x", status_reason="Task failed to start")
SPOT_ONLY = [
    {"action": "RETRY", "onStatusReason": "Host EC2*"},
    {"action": "EXIT", "onReason": "*"},
]


@pytest.mark.parametrize(
    "rules,failed,retried",
    [
        ([], EXIT_1, True),
        (SPOT_ONLY, HOST, True),
        (SPOT_ONLY, EXIT_1, False),
        (SPOT_ONLY, PULL, False),
        ([{"action": "exit", "onExitCode": "1"}], EXIT_1, False),
        ([{"action": "Retry", "onExitCode": "1"}], EXIT_1, True),
        ([{"action": "EXIT", "onExitCode": "2"}], EXIT_1, True),
        ([{"action": "EXIT", "onExitCode": "1*"}], attempt(exit_code=137), False),
        ([{"action": "EXIT", "onReason": "cannotpull*"}], PULL, True),
        ([{"action": "EXIT", "onReason": "CannotPull"}], PULL, True),
        ([{"action": "EXIT", "onReason": "CannotPull*", "onExitCode": "1"}], PULL, True),
        (
            [{"action": "RETRY", "onExitCode": "1"}, {"action": "EXIT", "onExitCode": "*"}],
            EXIT_1,
            True,
        ),
    ],
)
def test_the_first_rule_that_is_met_decides(
    rules: list[dict[str, str]], failed: Attempt, retried: bool
) -> None:
    assert retries.again({"attempts": 2, "evaluateOnExit": rules}, failed) is retried


@pytest.mark.parametrize("capacity", ["on-demand", "spot"])
@pytest.mark.parametrize(
    ("reason", "retried"),
    [
        ("CannotPullContainerError: context canceled", True),
        ("CannotPullContainerError: Error response from daemon: pull access denied for a", False),
    ],
)
def test_a_pull_that_was_interrupted_is_retried_and_one_that_was_refused_is_not(
    reason: str, retried: bool, capacity: str
) -> None:
    options = AwsOptions.model_validate(PROFILE)
    strategy = job.retry_strategy(decide(spec(cluster={"capacity": capacity}), options), options)

    failed = attempt(reason=reason, status_reason="Task failed to start")

    assert retries.again(strategy, failed) is retried


def test_attempts_are_counted(shared: Stand) -> None:
    job_id = shared.sh('test "$AWS_BATCH_JOB_ATTEMPT" = 3', retryStrategy={"attempts": 5})

    job = shared.end(job_id)

    assert job["status"] == "SUCCEEDED"
    assert [a["container"]["exitCode"] for a in job["attempts"]] == [1, 1, 0]
    streams = {a["container"].get("taskArn") for a in job["attempts"]}
    assert len(streams) == 3
    assert shared.truth(job_id)["starts"] == 3


def test_a_job_fails_when_its_attempts_are_used_up(shared: Stand) -> None:
    job = shared.end(shared.sh("exit 7", retryStrategy={"attempts": 2}))

    assert (job["status"], len(job["attempts"])) == ("FAILED", 2)


def test_a_reclaimed_machine_ends_the_attempt_and_the_rules_decide(shared: Stand) -> None:
    strategy = {"attempts": 3, "evaluateOnExit": SPOT_ONLY}
    script = 'echo up; test "$AWS_BATCH_JOB_ATTEMPT" = 2 && exit 5; sleep 60'
    job_id = shared.sh(script, retryStrategy=strategy)
    shared.wrote(job_id, "up")

    shared.ask("POST", "reclaim", {"jobId": job_id})
    job = shared.end(job_id)

    first, second = job["attempts"]
    assert first["statusReason"].startswith("Host EC2 (instance i-")
    assert "exitCode" not in first["container"]
    assert (second["container"]["exitCode"], job["status"]) == (5, "FAILED")


FARGATE = {"subnets": ["subnet-1"], "securityGroupIds": ["sg-1"], "maxvCpus": 16}


def on_fargate(stand: Stand, kind: str, script: str) -> str:
    """Submit a job to a queue of Fargate, and wait until it is up."""
    stand.batch.create_compute_environment(
        computeEnvironmentName=kind, type="MANAGED", computeResources={**FARGATE, "type": kind}
    )
    until(lambda: stand.server.world.environments[kind].status == "VALID")
    stand.queue("queue", kind)
    job_id = stand.sh(script, retryStrategy={"attempts": 1})
    stand.wrote(job_id, "up")
    return job_id


@pytest.mark.parametrize(
    "script,code",
    [
        ("trap 'exit 2' TERM; echo up; while :; do sleep 0.05; done", 2),
        ("trap '' TERM; echo up; while :; do sleep 0.05; done", 137),
    ],
)
def test_an_interrupted_task_of_fargate_spot_is_told_and_its_code_is_known(
    make: Callable[..., Stand], script: str, code: int
) -> None:
    """Whether it listens or not; the service's words are those that its users report."""
    stand = make()
    job_id = on_fargate(stand, "FARGATE_SPOT", script)

    stand.ask("POST", "reclaim", {"jobId": job_id, "notice_s": 60})

    (attempt,) = stand.end(job_id)["attempts"]
    assert attempt["statusReason"] == "Your Spot Task was interrupted."
    assert attempt["container"]["exitCode"] == code


def test_a_task_of_fargate_on_demand_is_not_interrupted(make: Callable[..., Stand]) -> None:
    stand = make()
    job_id = on_fargate(stand, "FARGATE", "echo up; sleep 60")

    with pytest.raises(urllib.error.HTTPError):
        stand.ask("POST", "reclaim", {"jobId": job_id})

    assert stand.job(job_id)["status"] == "RUNNING"


@pytest.mark.parametrize(
    "profile,failed,retried",
    [
        ({}, HOST, True),
        ({}, EXIT_1, False),
        ({"fargate": True}, INTERRUPTED, True),
        ({"fargate": True}, EXIT_1, False),
    ],
)
def test_the_clients_rules_try_a_reclaimed_job_again_and_a_failed_one_not(
    profile: dict[str, Any], failed: Attempt, retried: bool
) -> None:
    """However it ended: with no code, or one that says nothing."""
    options = AwsOptions.model_validate({**PROFILE, **profile})

    assert retries.again(job.retry_strategy(decide(spec(), options), options), failed) is retried


ASKS = """
import os, signal, sys, time, urllib.error, urllib.request
base = os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"] + "/latest/"
def ask(path, method="GET", **headers):
    headers = {f"X-aws-ec2-metadata-{k.replace('_', '-')}": v for k, v in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, None, headers, method=method)) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
action = "meta-data/spot/instance-action"
print(ask("api/token", "PUT")[0], ask("api/token", "PUT", token_ttl_seconds="21601")[0], flush=True)
print(ask(action)[0], ask(action, token="guessed")[0], flush=True)
token = ask("api/token", "PUT", token_ttl_seconds="60")[1]
print(ask(action, token=token)[0], flush=True)
while ask(action, token=token)[0] == 404:
    time.sleep(0.01)
print(ask(action, token=token), flush=True)
if len(sys.argv) < 2:
    time.sleep(60)
"""


def test_a_machine_tells_of_its_end_and_then_all_on_it_is_gone(shared: Stand) -> None:
    """Without a SIGTERM: no agent hands the notice on by default."""
    job_id = shared.run(sys.executable, "-c", ASKS, retryStrategy={"attempts": 1})
    shared.wrote(job_id, "404")

    shared.ask("POST", "reclaim", {"jobId": job_id, "notice_s": 0.5})
    job = shared.end(job_id)

    lines = shared.lines(job)
    assert lines[:3] == ["400 400", "401 401", "404"]
    assert re.fullmatch(
        r"""\(200, '{"action": "terminate", "time": "[0-9-]+T[0-9:]+Z"}'\)""", lines[3]
    )
    assert lines[4:] == []
    assert job["statusReason"].startswith("Host EC2")
    assert "exitCode" not in job["attempts"][0]["container"]


def test_a_program_that_exits_after_the_notice_has_succeeded(shared: Stand) -> None:
    job_id = shared.run(sys.executable, "-c", ASKS, "leave", retryStrategy={"attempts": 1})
    shared.wrote(job_id, "404")

    shared.ask("POST", "reclaim", {"jobId": job_id, "notice_s": 30})

    job = shared.end(job_id)
    assert (job["status"], job["attempts"][0]["container"]["exitCode"]) == ("SUCCEEDED", 0)


def test_a_timeout_ends_a_job_for_good(shared: Stand) -> None:
    job_id = shared.sh(
        "sleep 60", timeout={"attemptDurationSeconds": 1}, retryStrategy={"attempts": 3}
    )

    job = shared.end(job_id)

    assert job["statusReason"] == "Job attempt duration exceeded timeout"
    assert (job["status"], len(job["attempts"])) == ("FAILED", 1)
