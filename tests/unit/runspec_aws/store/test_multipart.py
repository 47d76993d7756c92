"""What an upload lacks is sent, some parts at a time and in their order; what is there is not."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_aws.store import multipart
from runspec_jobs.load.bundle import bundle
from runspec_jobs.provider import Conflict, RemoteError
from runspec_jobs.provider.streams.object_streams import HashedPart
from runspec_jobs.provider.streams.tar_stream import tar_blocks


class S3:
    """One upload, whose parts come *together*: each waits for as many others."""

    def __init__(self, there: dict[int, bytes], together: int = 1) -> None:
        self.there, self.sent = there, dict[int, bytes]()
        self.barrier = threading.Barrier(together, timeout=60)
        self.refuses = 0
        self.put: list[int] = []
        self.aborted: list[str] = []

    def get_paginator(self, operation: str) -> Any:
        if operation == "list_multipart_uploads":
            return SimpleNamespace(paginate=self.list_multipart_uploads)
        listed = [
            {"PartNumber": n, "ETag": tag(data), "Size": len(data)}
            for n, data in self.there.items()
        ]
        return SimpleNamespace(paginate=lambda **_: [{"Parts": listed, "IsTruncated": False}])

    def upload_part(self, **given: Any) -> dict[str, str]:
        number, data = given["PartNumber"], given["Body"].content
        if self.refuses == number:
            raise ClientError({"Error": {"Code": "NoSuchBucket"}}, "UploadPart")
        self.barrier.wait()
        self.sent[number] = data
        return {"ETag": tag(data)}

    def complete_multipart_upload(self, **given: Any) -> dict[str, str]:
        self.put = [part["PartNumber"] for part in given["MultipartUpload"]["Parts"]]
        return {"ETag": "x"}

    def create_multipart_upload(self, **_: Any) -> dict[str, str]:
        return {"UploadId": "u"}

    def abort_multipart_upload(self, **given: Any) -> None:
        self.aborted.append(given["UploadId"])

    def list_multipart_uploads(self, **_: Any) -> Any:
        if not self.there:
            raise ClientError({"Error": {"Code": "NoSuchUpload"}}, "ListMultipartUploads")
        return [{"Uploads": [{"Key": "k", "UploadId": "u", "Initiated": ""}], "IsTruncated": False}]


def tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def session(s3: S3) -> Any:
    return SimpleNamespace(bucket="b", look=lambda _: s3, make=lambda _: s3, upload=lambda: s3)


def put(s3: S3, blocks: Iterable[bytes]) -> None:
    multipart.put(session(s3), "k", blocks, 0)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multipart, "LEAST_BYTES", 3)


BLOCKS = [b"aaa", b"bb", b"b", b"ccc", b"dd"]  # parts: aaa bbb ccc dd


def test_parts_that_are_there_are_not_sent_again() -> None:
    """By content: one that is another is sent."""
    s3 = S3({1: b"aaa", 2: b"xxx", 4: b"d"})

    put(s3, BLOCKS)

    assert s3.sent == {2: b"bbb", 3: b"ccc", 4: b"dd"}
    assert s3.put == [1, 2, 3, 4]


def test_some_parts_travel_together() -> None:
    s3 = S3({}, together=len(BLOCKS) - 1)

    put(s3, BLOCKS)

    assert s3.put == [1, 2, 3, 4]


def test_no_more_parts_are_in_memory_than_travel() -> None:
    held: list[int] = []
    s3 = S3({})

    def blocks() -> Any:
        for n in range(50):
            held.append(n - len(s3.sent))
            yield b"%03d" % n

    put(s3, blocks())

    assert s3.put == list(range(1, 51))
    assert max(held) <= multipart.AT_ONCE + 1


def test_an_upload_that_lacks_a_part_is_not_put_together() -> None:
    s3 = S3({})
    s3.refuses = 2

    with pytest.raises(RemoteError, match="upload k"):
        put(s3, BLOCKS)

    assert (s3.put, s3.aborted) == ([], [])


def test_an_upload_of_a_folder_that_changes_is_aborted() -> None:
    s3 = S3({})

    def changing() -> Iterator[bytes]:
        yield b"aaa"
        raise Conflict("it changed")

    with pytest.raises(Conflict):
        put(s3, changing())

    assert (s3.put, s3.aborted) == ([], ["u"])


def test_parts_of_large_files_are_hashed_once_when_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But the first of a file, which has the tar's header before it, and the end."""
    monkeypatch.setattr(multipart, "LEAST_BYTES", 5 << 20)
    (tmp_path / "a").write_bytes(os.urandom((34 << 20) + 5))
    (tmp_path / "b").write_bytes(os.urandom(20 << 20))
    blocks = list(tar_blocks(bundle(tmp_path), lambda done, whole: None))

    found = list(multipart.parts(blocks, 5 << 20))

    hashed = [isinstance(part, HashedPart) for part in found]
    assert hashed == [False, True, True, True, False, True, False]
    assert all(
        part.sha256 == hashlib.sha256(part).hexdigest()
        for part in found
        if isinstance(part, HashedPart)
    )
    assert b"".join(found) == b"".join(blocks)
    assert min(map(len, found[:-1])) >= 5 << 20


def test_a_store_that_never_had_an_upload_has_none() -> None:
    """rclone's, for one, says so with an error."""
    assert multipart.unfinished(session(S3({})), "k") == []


def test_parts_of_uploads_that_nobody_goes_on_with_are_dropped() -> None:
    """They cost as much as a complete object."""
    s3 = S3({1: b"x"})

    multipart.drop(session(s3), "k")

    assert s3.aborted == ["u"]
