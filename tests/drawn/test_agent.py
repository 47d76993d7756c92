"""The store's client in a job (`runspec_inside.s3`): whatever S3 answers, a job gets what is there, or a Failure."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from runspec_inside import body, boot, s3
from runspec_inside.bucket import Object
from runspec_inside.s3 import S3Bucket
from runspec_inside.words import Failure
from tests.drawn.aws_account import BUCKET, PREFIX, Account, Drawn, World, drawn, opened
from tests.drawn.aws_cases import DATA, pages, worlds
from tests.drawn.aws_truths import TRUTHS
from tests.drawn.drawing import COUNT, tried

pytestmark = pytest.mark.slow
KEY = "k"
CHANGED = "it changed while it was read"
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


def right_version(world: World, found: Any) -> bool:
    """Say whether an object's version is one by which it can be swapped."""
    return found is None or found not in ("", "None", (DATA, None))


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


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    quick = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
    for module in (body, boot, s3):
        monkeypatch.setattr(module, "time", quick)
    monkeypatch.setattr(boot.Store, "tries", 2)
    monkeypatch.setattr(s3, "PART_BYTES", 1024)
    with opened(TRUTHS) as found:
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

    count = tried(f"job: {name}", st.tuples(WORLDS, drawn("s3", case.operation)), check)

    assert count >= COUNT
