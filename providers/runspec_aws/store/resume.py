"""Continue interrupted multipart uploads, or abort them.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from runspec_aws.errors import got, listed, translated
from runspec_aws.lookup import absent
from runspec_aws.session.clients import Session
from runspec_jobs.provider import NoAnswer

AT_ONCE = 4  # parts that are uploaded at once, each of which is in memory
NONE = frozenset(
    {"NoSuchUpload"}
)  # some stores answer so if there never was an upload; S3 does not


def unfinished(session: Session, key: str) -> list[str]:
    """Return the ids of the unfinished uploads of *key*, newest last."""
    pages = session.look("s3").get_paginator("list_multipart_uploads")

    def ask() -> dict[str, Any]:
        found = pages.paginate(Bucket=session.bucket, Prefix=key)
        return {"Uploads": [one for page in found for one in listed(page, "Uploads")]}

    found = absent(ask, f"look for uploads of {key}", NONE) or {}
    uploads = [upload for upload in found.get("Uploads", ()) if upload["Key"] == key]
    return [upload["UploadId"] for upload in sorted(uploads, key=lambda u: str(u["Initiated"]))]


def drop(session: Session, key: str) -> None:
    """Abort every unfinished upload of *key*, since its parts cost as much as a complete object."""
    for upload in unfinished(session, key):
        with translated(f"abort an upload of {key}"):
            session.look("s3").abort_multipart_upload(
                Bucket=session.bucket, Key=key, UploadId=upload
            )


def finish(session: Session, key: str, upload: str, blocks: Iterable[bytes], part: int) -> None:
    """Send the parts of *blocks* that *upload* lacks, each of *part* bytes, and complete the upload.

    A part whose ETag is not the MD5 of its content is sent again: see docs/unverified.md, aws-8.
    """
    where = {"Bucket": session.bucket, "Key": key, "UploadId": upload}
    uploaded, s3 = _parts(session, where), session.make("s3")

    def sent(number: int, data: bytes) -> dict[str, Any]:
        etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        if uploaded.get(number) != (etag, len(data)):
            with translated(f"upload part {number} of {key}"):
                answer = s3.upload_part(**where, PartNumber=number, Body=data)
            etag = got(answer, "ETag")
        return {"PartNumber": number, "ETag": etag}

    complete: list[dict[str, Any]] = []
    with ThreadPoolExecutor(AT_ONCE) as threads:
        pending: deque[Future[dict[str, Any]]] = deque()
        for number, data in enumerate(parts(blocks, part), 1):
            if len(pending) == AT_ONCE:
                complete.append(pending.popleft().result())
            pending.append(threads.submit(sent, number, data))
        complete += [one.result() for one in pending]
    with translated(f"complete the upload of {key}"):
        done = session.make("s3").complete_multipart_upload(
            **where, MultipartUpload={"Parts": complete}
        )
    if "ETag" not in done:
        raise NoAnswer(f"complete the upload of {key}: the reply was cut off")


def _parts(session: Session, where: Mapping[str, Any]) -> dict[int, tuple[str, int]]:
    """Return the ETag and size of each uploaded part; the ETag is the MD5 of the part unless KMS encrypts it."""
    pages = session.look("s3").get_paginator("list_parts")
    with translated(f"list the parts of {where['Key']}"):
        return {
            found["PartNumber"]: (found["ETag"], found["Size"])
            for page in pages.paginate(**where)
            for found in listed(page, "Parts")
        }


def parts(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the bytes of *blocks* in pieces of *size* bytes; the last one may be shorter.

    >>> list(parts([b"abc", b"defgh"], 3))
    [b'abc', b'def', b'gh']
    """
    rest = bytearray()
    for block in blocks:
        rest += block
        while len(rest) >= size:
            yield bytes(rest[:size])
            del rest[:size]
    if rest:
        yield bytes(rest)
