"""An object that must be new: S3 refuses it if it exists, and asks for a repetition if another call interferes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from botocore.exceptions import ClientError

from runspec_aws.store.objects import Objects
from runspec_aws.timing import DEFAULT, Clock
from runspec_jobs.load.bundle import bundle
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


def test_a_small_folder_is_one_object(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    bucket, told = Bucket(), list[tuple[int, int]]()
    session: Any = SimpleNamespace(bucket="jobs", upload=lambda: bucket)

    Objects(session, "runspec").put_folder("k", bundle(tmp_path), lambda *both: told.append(both))

    (written,) = bucket.written
    with tarfile.open(fileobj=io.BytesIO(written["Body"].read())) as tar:
        assert tar.getnames() == ["a"]
    assert (written["Key"], told[-1]) == ("k", (1, 1))


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
    assert told.value.hint and "runspec docs networks" in told.value.hint


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


class Deleting:
    """A client of S3 that parses requests as the service does: DeleteObjects is XML."""

    def __init__(self, *keys: str) -> None:
        self.keys = set(keys)
        self.requests = 0

    def get_paginator(self, operation: str) -> Any:
        field = "Versions" if operation == "list_object_versions" else "Contents"
        entries = [{"Key": key, "VersionId": "v1"} for key in sorted(self.keys)]
        return SimpleNamespace(paginate=lambda **_: [{field: entries, "IsTruncated": False}])

    def delete_objects(self, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        self.requests += 1
        keys = [one["Key"] for one in Delete["Objects"]]
        text = "".join(f"<Key>{escape(key)}</Key>" for key in keys)
        read = [found.text or "" for found in ElementTree.fromstring(f"<a>{text}</a>")]
        self.keys -= set(read)
        return {}

    def delete_object(self, Bucket: str, Key: str, VersionId: str = "") -> dict[str, Any]:  # noqa: N803
        self.requests += 1
        self.keys.discard(Key)
        return {}


ODD = ("a\bb", "a\x1f", "a\tb", "a\r\nb", "a\r", "a\ufffe", "a\uffff")
PLAIN = ("a b", "<&>\"'", "é日", "😀", "a\x7f", "\x85", "a+b%20")


@pytest.mark.parametrize("versioned", [False, True])
def test_every_key_is_deleted_whatever_characters_it_has(versioned: bool) -> None:
    """XML can hold some in no form, and reads a carriage return as a line feed."""
    there = Deleting(*(f"runspec/runs/r/{name}" for name in (*ODD, *PLAIN)))
    session: Any = SimpleNamespace(bucket="jobs", make=lambda _: there, look=lambda _: there)

    Objects(session, "runspec", versioned=versioned).empty("runspec/runs/r/")

    assert there.keys == set()
    assert there.requests == len(ODD) + 1
