"""Faults come when they are asked for, and the calls are on record."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from tests.emulators.aws.stand import Stand, session

pytestmark = pytest.mark.process


@pytest.fixture
def faulty(stand: Stand) -> Stand:
    stand.define([":"])
    return stand


def count(stand: Stand) -> int:
    return len(stand.ask("GET", "jobs"))


@pytest.mark.parametrize(
    "kind,code,status,done",
    [
        ("throttle", "TooManyRequestsException", 429, False),
        ("error-before", "ServerException", 500, False),
        ("error-after", "ServerException", 500, True),
        ("expired", "ExpiredTokenException", 403, False),
    ],
)
def test_an_error_is_answered_before_or_after_the_deed(
    faulty: Stand, kind: str, code: str, status: int, done: bool
) -> None:
    faulty.faults({"service": "batch", "operation": "SubmitJob", "kind": kind})

    with pytest.raises(ClientError) as caught:
        faulty.submit("definition")

    answer = caught.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (code, status)
    assert count(faulty) == done
    assert faulty.submit("definition")


@pytest.mark.parametrize("kind,done", [("reset-before", False), ("reset-after", True)])
def test_a_connection_is_reset_before_or_after_the_deed(
    faulty: Stand, kind: str, done: bool
) -> None:
    faulty.faults({"operation": "SubmitJob", "kind": kind})

    with pytest.raises(ConnectionClosedError):
        faulty.submit("definition")

    assert count(faulty) == done


def test_a_reply_is_held_back_after_the_deed(faulty: Stand) -> None:
    from botocore.config import Config

    faulty.faults({"operation": "SubmitJob", "kind": "hang-after", "seconds": 1})
    config = Config(read_timeout=0.2, retries={"total_max_attempts": 1})
    hasty = session().client("batch", endpoint_url=faulty.server.url, config=config)

    with pytest.raises(ReadTimeoutError):
        hasty.submit_job(jobName="j", jobQueue="queue", jobDefinition="definition")

    assert count(faulty) == 1


def test_half_of_an_answer_has_no_job_id(faulty: Stand) -> None:
    faulty.faults({"operation": "SubmitJob", "kind": "truncated"})

    answer = faulty.batch.submit_job(jobName="j", jobQueue="queue", jobDefinition="definition")

    assert "jobId" not in answer
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert count(faulty) == 1


def test_half_of_a_refusal_keeps_its_status(faulty: Stand) -> None:
    faulty.faults({"operation": "SubmitJob", "kind": "truncated"})

    with pytest.raises(ClientError) as caught:
        faulty.submit("nothing")

    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_the_nth_call_suffers_and_as_many_as_said(faulty: Stand) -> None:
    faulty.faults({"operation": "DescribeJobs", "kind": "throttle", "nth": 2, "times": 2})

    def outcome() -> str:
        try:
            faulty.batch.describe_jobs(jobs=["x"])
        except ClientError as exc:
            return str(exc.response["Error"]["Code"])
        return "ok"

    throttled = "TooManyRequestsException"
    assert [outcome() for _ in range(4)] == ["ok", throttled, throttled, "ok"]


def test_faults_are_cleared(faulty: Stand) -> None:
    faulty.faults({"kind": "error-before", "times": 100})

    faulty.ask("DELETE", "faults")

    assert faulty.submit("definition")


@pytest.mark.parametrize(
    "bad", [{"kind": "flood"}, {"kind": "throttle", "operatoin": "x"}, "throttle"]
)
def test_a_fault_that_cannot_be_is_refused(faulty: Stand, bad: Any) -> None:
    with pytest.raises(Exception, match="400"):
        faulty.ask("PUT", "faults", [bad])


def test_every_attempt_is_on_record(faulty: Stand) -> None:
    faulty.faults({"operation": "SubmitJob", "kind": "throttle"})
    retrying = session().client("batch", endpoint_url=faulty.server.url)

    retrying.submit_job(jobName="j", jobQueue="queue", jobDefinition="definition")
    with pytest.raises(ClientError):
        faulty.submit("nothing")

    calls = [c for c in faulty.ask("GET", "calls") if c["operation"] == "SubmitJob"]
    assert [c["outcome"] for c in calls] == ["throttle", "ok", "ClientException"]
    assert calls[0]["params"]["jobName"] == "j"
    assert calls[0]["service"] == "batch"
    assert 0 < calls[0]["at"] < calls[1]["at"] < calls[2]["at"]


@pytest.mark.parametrize(
    "bad",
    [{"engine": "podman"}, {"log_model": "odd"}, {"list_lag_s": "long"}, {"nothing": 1}],
)
def test_settings_that_cannot_be_changed_are_refused(faulty: Stand, bad: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="400"):
        faulty.set(**bad)
