"""An object that must be new: S3 refuses it if it exists, and asks for a repetition if another call interferes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_aws.store.objects import Objects
from runspec_aws.timing import DEFAULT, Clock
from runspec_jobs.provider import RemoteError

HERE, MEANWHILE = ("PreconditionFailed", 412), ("ConditionalRequestConflict", 409)


class Bucket:
    """A client of S3 that gives *answers* in turn, and then writes."""

    def __init__(self, *answers: tuple[str, int]) -> None:
        self.answers = list(answers)
        self.pauses: list[float] = []
        self.written: list[dict[str, Any]] = []

    def put_object(self, **given: Any) -> dict[str, Any]:
        if self.answers:
            code, status = self.answers.pop(0)
            response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(response, "PutObject")
        self.written.append(given)
        return {}

    def put_new(self) -> bool:
        clock = Clock(sleep=self.pauses.append)
        how = {"timing": DEFAULT, "clock": clock}
        session: Any = SimpleNamespace(bucket="jobs", make=lambda service: self, **how)
        return Objects(session, "runspec").put_new(b"1", "runs", "a", "claim")


def test_an_object_that_exists_is_not_written() -> None:
    bucket = Bucket(HERE)

    assert not bucket.put_new()
    assert (bucket.written, bucket.pauses) == ([], [])


def test_a_write_that_met_another_call_is_repeated() -> None:
    bucket = Bucket(MEANWHILE, MEANWHILE)

    assert bucket.put_new()
    body = {"Bucket": "jobs", "Key": "runspec/runs/a/claim", "Body": b"1", "IfNoneMatch": "*"}
    assert bucket.written == [body]
    assert len(bucket.pauses) == 2


def test_a_write_that_met_the_write_of_another_finds_its_object() -> None:
    bucket = Bucket(MEANWHILE, HERE)

    assert not bucket.put_new()
    assert bucket.written == []


def test_a_write_that_never_gets_through_is_an_error_and_not_an_object_that_exists() -> None:
    bucket = Bucket(*[MEANWHILE] * 100)

    with pytest.raises(RemoteError, match="runspec/runs/a/claim"):
        bucket.put_new()
    assert sum(bucket.pauses) < 10
