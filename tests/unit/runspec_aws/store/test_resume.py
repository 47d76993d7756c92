"""What an upload lacks is sent, some parts at a time and in their order; what is there is not."""

from __future__ import annotations

import hashlib
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_aws.store import resume
from runspec_jobs.provider import RemoteError


class S3:
    """One upload, whose parts come *together*: each waits for as many others."""

    def __init__(self, there: dict[int, bytes], together: int = 1) -> None:
        self.there, self.sent = there, dict[int, bytes]()
        self.barrier = threading.Barrier(together, timeout=60)
        self.refuses = 0
        self.put: list[int] = []

    def get_paginator(self, operation: str) -> Any:
        if operation == "list_multipart_uploads":
            return SimpleNamespace(paginate=self.list_multipart_uploads)
        listed = [
            {"PartNumber": n, "ETag": tag(data), "Size": len(data)}
            for n, data in self.there.items()
        ]
        return SimpleNamespace(paginate=lambda **_: [{"Parts": listed, "IsTruncated": False}])

    def upload_part(self, **given: Any) -> dict[str, str]:
        number, data = given["PartNumber"], given["Body"]
        if self.refuses == number:
            raise ClientError({"Error": {"Code": "NoSuchBucket"}}, "UploadPart")
        self.barrier.wait()
        self.sent[number] = data
        return {"ETag": tag(data)}

    def complete_multipart_upload(self, **given: Any) -> dict[str, str]:
        self.put = [part["PartNumber"] for part in given["MultipartUpload"]["Parts"]]
        return {"ETag": "x"}

    def list_multipart_uploads(self, **_: Any) -> Any:
        raise ClientError({"Error": {"Code": "NoSuchUpload"}}, "ListMultipartUploads")


def tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def session(s3: S3) -> Any:
    return SimpleNamespace(bucket="b", look=lambda _: s3, make=lambda _: s3)


BLOCKS = [b"aaa", b"bb", b"bccc", b"dd"]  # parts of 3: aaa bbb ccc dd


def test_parts_that_are_there_are_not_sent_again() -> None:
    """By content: one that is another is sent."""
    s3 = S3({1: b"aaa", 2: b"xxx", 4: b"d"})

    resume.finish(session(s3), "k", "u", BLOCKS, 3)

    assert s3.sent == {2: b"bbb", 3: b"ccc", 4: b"dd"}
    assert s3.put == [1, 2, 3, 4]


def test_some_parts_travel_together() -> None:
    s3 = S3({}, together=resume.AT_ONCE)

    resume.finish(session(s3), "k", "u", BLOCKS, 3)

    assert s3.put == [1, 2, 3, 4]


def test_no_more_parts_are_in_memory_than_travel() -> None:
    held: list[int] = []
    s3 = S3({})

    def blocks() -> Any:
        for n in range(50):
            held.append(n - len(s3.sent))
            yield b"%03d" % n

    resume.finish(session(s3), "k", "u", blocks(), 3)

    assert s3.put == list(range(1, 51))
    assert max(held) <= resume.AT_ONCE + 1


def test_an_upload_that_lacks_a_part_is_not_put_together() -> None:
    s3 = S3({})
    s3.refuses = 2

    with pytest.raises(RemoteError, match="upload part 2 of k"):
        resume.finish(session(s3), "k", "u", BLOCKS, 3)

    assert s3.put == []


def test_a_store_that_never_had_an_upload_has_none() -> None:
    """rclone's, for one, says so with an error."""
    assert resume.unfinished(session(S3({})), "k") == []
