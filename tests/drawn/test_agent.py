"""The store's client in a job (`runspec_agent.store.s3`): a job gets what is there or a Failure, whatever S3 says."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from runspec_agent.base import boot
from runspec_agent.base.job_env import Failure
from runspec_agent.store import ranged_read, s3
from runspec_agent.store.base import Object
from runspec_agent.store.s3 import S3Bucket
from tests.drawn import aws_models
from tests.drawn.aws_account import (
    BUCKET,
    PREFIX,
    Account,
    Drawn,
    Params,
    World,
    drawn,
    opened,
)
from tests.drawn.aws_cases import DATA, pages, worlds
from tests.drawn.aws_truths import TRUTHS, Truth, content
from tests.drawn.drawing import COUNT, tried

pytestmark = pytest.mark.slow
KEY = "k"
TARGET = "to"
CHANGED = "the file changed while it was read"
ABSENT = f"the store refuses a copy of absent to {TARGET}: 404 NoSuchKey"
WORLDS = worlds(pages=pages("a", "ü b", "c/d"), files=st.just({f"{PREFIX}/{KEY}": DATA}))


class Case(NamedTuple):
    """What a job asks of its store, and whether what it got is what is there."""

    operation: str
    drive: Callable[[S3Bucket], Any]
    good: Callable[[World, Any], bool]


def read(bucket: S3Bucket) -> bytes:
    with bucket.opened(KEY) as stream:
        return b"".join(iter(stream.read, b""))


def listed(world: World, found: list[Object]) -> bool:
    names = [name for page in world.pages for name in page]
    return [one.key for one in found] == names and all(one.size == 5 for one in found)


def in_parts(bucket: S3Bucket) -> bool:
    bucket.put_file(KEY, lambda: BytesIO(DATA), len(DATA), hashlib.sha256(DATA).hexdigest())
    return True


def given_up(bucket: S3Bucket) -> str | None:
    """Put a file in parts that has changed since it was hashed; return what is said of it."""
    try:
        bucket.put_file(KEY, lambda: BytesIO(DATA), len(DATA), "0" * 64)
    except Failure as exc:
        return str(exc)
    return None


def copied(bucket: S3Bucket) -> bool:
    bucket.copy(KEY, TARGET, 9)
    return True


def copied_in_parts(bucket: S3Bucket) -> bool:
    bucket.copy(KEY, TARGET, len(DATA))
    return True


def copy_given_up(bucket: S3Bucket) -> str | None:
    """Copy what is not there; return what is said of it."""
    try:
        bucket.copy("absent", TARGET, len(DATA))
    except Failure as exc:
        return str(exc)
    return None


def deleted(bucket: S3Bucket) -> bool:
    bucket.delete(KEY)
    return True


def right_version(world: World, found: Any) -> bool:
    """Say whether an object's version is one by which it can be swapped."""
    return found is None or found not in ("", "None", (DATA, None))


def copy_source(account: Account, params: Params) -> Any:
    found = content(account, str(params["source"]).removeprefix(f"/{BUCKET}/"))
    return None if found is not None else aws_models.refusal("s3", "NoSuchKey", 404)


# Nothing but a job's store copies.
COPIES: dict[str, Truth] = {
    "CopyObject": lambda account, params: (
        copy_source(account, params) or {"CopyObjectResult": {"ETag": '"c"'}}
    ),
    "UploadPartCopy": lambda account, params: (
        copy_source(account, params) or {"CopyPartResult": {"ETag": '"p"'}}
    ),
}
CASES = {
    "fetch": Case(
        "GetObject", lambda bucket: bucket.fetch(KEY), lambda world, found: found == (DATA, '"e"')
    ),
    "swap": Case("PutObject", lambda bucket: bucket.swap(KEY, DATA, '"d"'), right_version),
    **{
        f"put_file: {operation}": Case(operation, in_parts, lambda world, found: True)
        for operation in ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")
    },
    "put_file: AbortMultipartUpload": Case(
        "AbortMultipartUpload", given_up, lambda world, found: found == CHANGED
    ),
    "copy": Case("CopyObject", copied, lambda world, found: True),
    **{
        f"copy: {operation}": Case(operation, copied_in_parts, lambda world, found: True)
        for operation in ("CreateMultipartUpload", "UploadPartCopy", "CompleteMultipartUpload")
    },
    "copy: AbortMultipartUpload": Case(
        "AbortMultipartUpload", copy_given_up, lambda world, found: str(found).startswith(ABSENT)
    ),
    "delete": Case("DeleteObject", deleted, lambda world, found: True),
    "get": Case("GetObject", lambda bucket: bucket.get(KEY), lambda world, found: found == DATA),
    "opened": Case("GetObject", read, lambda world, found: found == DATA),
    "put": Case("PutObject", lambda bucket: bucket.put(KEY, b"x"), lambda world, found: True),
    "claim": Case(
        "PutObject",
        lambda bucket: bucket.claim(KEY, b"x"),
        lambda world, found: found in (b"x", DATA),
    ),
    "listing": Case("ListObjectsV2", lambda bucket: list(bucket.listing("")), listed),
}


def assert_whole(account: Account, how: Drawn) -> None:
    """Assert that an upload in parts, of which the client says that it is whole, was put together by the store."""
    if not account.called("UploadPart") or account.wanted[1] == "AbortMultipartUpload":
        return
    sent = {call.params["partNumber"]: call.params["body"] for call in account.called("UploadPart")}
    assert b"".join(sent[number] for number in sorted(sent, key=int)) == DATA
    last = account.called("CompleteMultipartUpload")[-1].params
    assert last["uploadId"] and last["body"].count(b"<ETag>") == len(sent)
    assert b"<ETag>None" not in last["body"]
    wrong = account.wanted[1] == "CompleteMultipartUpload" and how.kind in ("refused", "odd", "cut")
    assert not (wrong and account.met) or len(account.called("CompleteMultipartUpload")) > 1


def assert_copied(account: Account, how: Drawn) -> None:
    """Assert that a copy, of which the client says that it was made, was made by the store, and of all bytes."""
    calls = account.called("CopyObject") or account.called("UploadPartCopy")
    if not calls or account.wanted[1] == "AbortMultipartUpload":
        return
    assert {call.params["source"] for call in calls} == {f"/{BUCKET}/{PREFIX}/{KEY}"}
    wrong = how.kind in ("refused", "odd", "cut") and account.met
    assert not wrong or len(account.called(account.wanted[1])) > 1
    parts = {
        call.params["partNumber"]: call.params["range"] for call in calls if call.params["range"]
    }
    if parts:
        ends = [parts[n].removeprefix("bytes=").split("-") for n in sorted(parts, key=int)]
        assert b"".join(DATA[int(a) : int(b) + 1] for a, b in ends) == DATA
        last = account.called("CompleteMultipartUpload")[-1].params["body"]
        assert last.count(b"<ETag>") == len(parts) and b"<ETag>None" not in last


def assert_deleted(account: Account, how: Drawn) -> None:
    """Assert that the store carried out a deletion, or said that nothing was there."""
    calls = account.called("DeleteObject")
    absent = how.kind == "refused" and how.refusal.status == 404
    assert not calls or "DeleteObject" in account.done or absent


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    quick = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
    for module in (ranged_read, boot, s3):
        monkeypatch.setattr(module, "time", quick)
    monkeypatch.setattr(boot.Store, "tries", 2)
    monkeypatch.setattr(s3, "PART_BYTES", 1024)
    with opened({**TRUTHS, **COPIES}) as found:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_ENDPOINT_URL": found.server.url,
            "RUNSPEC_STORE": f"s3://{BUCKET}/{PREFIX}",
            "RUNSPEC_REGION": "eu-central-1",
        }.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.mark.parametrize("name", CASES)
def test_whatever_the_store_answers_a_job_gets_what_is_there_or_a_failure(
    account: Account, name: str
) -> None:
    case = CASES[name]

    def check(example: tuple[World, Drawn]) -> None:
        world, how = example
        account.begin(world, "s3", case.operation, how)
        found: Any
        try:
            found = case.drive(S3Bucket())
        except Failure as exc:
            found = exc
        assert account.server.wrong == []
        if isinstance(found, Failure):
            assert how.kind != "whole" and account.met and str(found)
            return
        absent = how.kind == "refused" and how.refusal.status == 404 and found is None
        assert case.good(world, found) or absent or account.emptied
        assert_whole(account, how)
        assert_copied(account, how)
        assert_deleted(account, how)

    count = tried(f"job: {name}", st.tuples(WORLDS, drawn("s3", case.operation)), check)

    assert count >= COUNT
