"""An object that must be new: S3 refuses it if it exists, and asks for a repetition if another call interferes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_aws.store.objects import Objects
from runspec_aws.timing import DEFAULT, Clock
from runspec_jobs.provider import NoAnswer, RemoteError

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


class Store:
    """A store that has "key", and obeys the conditions of *knows*; others get *unknown*, or are ignored."""

    def __init__(self, *knows: str, unknown: tuple[str, int] | None = None) -> None:
        self.knows, self.unknown = knows, unknown

    def put_object(self, **given: Any) -> dict[str, Any]:
        for condition in {"IfNoneMatch", "IfMatch"} & given.keys():
            if condition in self.knows:
                raise self.refused(*HERE)
            if self.unknown is not None:
                raise self.refused(*self.unknown)
        return {}

    def refused(self, code: str, status: int) -> ClientError:
        response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
        return ClientError(response, "PutObject")

    def check(self) -> None:
        session: Any = SimpleNamespace(bucket="jobs", make=lambda service: self)
        Objects(session, "runspec").refuse_without_conditions("key", b"1")


def test_a_store_with_conditional_writes_is_accepted() -> None:
    Store("IfNoneMatch", "IfMatch").check()


@pytest.mark.parametrize(
    ("store", "header"),
    [
        (Store(), "If-None-Match"),
        (Store("IfMatch"), "If-None-Match"),
        (Store("IfNoneMatch"), "If-Match"),
        (Store(unknown=("NotImplemented", 501)), "If-None-Match"),
        (Store(unknown=("InvalidArgument", 400)), "If-None-Match"),
    ],
)
def test_a_store_without_a_conditional_write_is_refused_with_what_would_happen(
    store: Store, header: str
) -> None:
    """`rclone serve s3` 1.75 and s3rver 3.7.1 answer 200 to such a PUT of an object that exists."""
    with pytest.raises(RemoteError, match=f"does not obey {header}: two jobs of one run") as told:
        store.check()

    assert not told.value.transient
    assert told.value.hint and "docs/networks.md" in told.value.hint


@pytest.mark.parametrize("busy", [("SlowDown", 503), ("ConditionalRequestConflict", 409)])
def test_a_store_that_is_busy_is_not_taken_for_one_without_conditions(
    busy: tuple[str, int],
) -> None:
    with pytest.raises(RemoteError) as told:
        Store(unknown=busy).check()

    assert "does not obey" not in told.value.message


def test_a_store_that_says_nothing_is_not_taken_for_one_without_conditions() -> None:
    with pytest.raises(NoAnswer):
        Store(unknown=("InternalError", 500)).check()
