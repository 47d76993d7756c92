"""What AWS answers, in the core's words: a login, a right, a refusal, or no answer at all."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from runspec_aws.errors import LOGIN, RIGHTS, translated
from runspec_jobs.provider import CredentialsError, NoAnswer, RemoteError, RunspecError


def answered(code: str, status: int, operation: str = "SubmitJob") -> Exception:
    """Give what becomes of an answer with *code* and *status*."""
    response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(RunspecError) as caught, translated("it"):
        raise ClientError(response, operation)
    return caught.value


@pytest.mark.parametrize(
    "code,status,operation,hint",
    [
        ("ExpiredToken", 400, "SubmitJob", LOGIN),
        ("400", 400, "HeadObject", LOGIN),
        ("AccessDenied", 403, "PutObject", RIGHTS),
        ("403", 403, "HeadBucket", RIGHTS),
    ],
)
def test_a_login_and_a_right_are_told_apart(
    code: str, status: int, operation: str, hint: str
) -> None:
    found = answered(code, status, operation)

    assert isinstance(found, CredentialsError)
    assert found.hint == hint


def test_a_refusal_that_passes_is_known_as_such() -> None:
    found = answered("TooManyRequestsException", 429)

    assert isinstance(found, RemoteError)
    assert found.transient


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("SlowDown", 503),
        ("RequestLimitExceeded", 503),
        ("ThrottlingException", 400),
        ("EC2ThrottledException", 400),
    ],
)
def test_a_busy_service_has_refused_and_may_be_asked_again(code: str, status: int) -> None:
    found = answered(code, status)

    assert isinstance(found, RemoteError)
    assert found.transient


@pytest.mark.parametrize("code", ["ServiceUnavailable", "Unavailable"])
@pytest.mark.parametrize(
    ("operation", "again"), [("PutObject", True), ("CreateJobQueue", True), ("SubmitJob", False)]
)
def test_a_request_that_failed_for_a_moment_is_repeated_if_it_names_what_it_makes(
    operation: str, again: bool, code: str
) -> None:
    found = answered(code, 503, operation)

    assert isinstance(found, NoAnswer)
    assert found.transient is again


@pytest.mark.parametrize(
    ("asked", "seconds"), [("7", 7.0), ("soon", None), ("-1", None), (None, None)]
)
def test_the_pause_that_a_busy_service_asks_for_is_kept(
    asked: str | None, seconds: float | None
) -> None:
    headers = {} if asked is None else {"retry-after": asked}
    meta = {"HTTPStatusCode": 503, "HTTPHeaders": headers}

    with pytest.raises(RemoteError) as caught, translated("it"):
        raise ClientError({"Error": {"Code": "SlowDown"}, "ResponseMetadata": meta}, "PutObject")

    assert caught.value.retry_after_s == seconds


def test_an_environment_whose_queue_is_going_may_be_deleted_later() -> None:
    text = "Cannot delete, found existing JobQueue relationship"
    error = {"Code": "ClientException", "Message": text}

    with pytest.raises(RemoteError) as caught, translated("it"):
        raise ClientError(
            {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}},
            "DeleteComputeEnvironment",
        )

    assert (caught.value.transient, caught.value.retry_after_s) == (True, 5.0)


def test_a_reply_of_endless_depth_is_no_answer() -> None:
    with pytest.raises(NoAnswer, match="it: the reply cannot be read"), translated("it"):
        json.loads("[" * 200_000)


@pytest.mark.parametrize("code,status", [("InternalError", 500), ("", 200), ("400", 400)])
def test_an_ambiguous_status_counts_as_no_answer(code: str, status: int) -> None:
    """An answer whose code was cut off says as little as none."""
    assert isinstance(answered(code, status), NoAnswer)


@pytest.mark.parametrize(
    ("code", "status"), [("ClientException", 400), ("NotImplemented", 501), ("A", 501)]
)
def test_a_definite_refusal_is_a_remote_error(code: str, status: int) -> None:
    found = answered(code, status)

    assert isinstance(found, RemoteError)
    assert not found.transient
