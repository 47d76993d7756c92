"""Upload objects in parts: begin an upload, continue an interrupted one, or abort it.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from runspec_aws.errors import got, listed, translated
from runspec_aws.lookup import absent
from runspec_aws.session import Body, Session
from runspec_jobs.provider import Conflict, NoAnswer, RunspecError
from runspec_jobs.provider.streams.object_streams import HashedPart

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
LEAST_BYTES = 5 << 20  # the least bytes of every part but the last one
PARTS = 10_000  # the most parts of one upload
AT_ONCE = 8  # parts that are uploaded at once, each of which is in memory
Content = bytes | bytearray
Where = Mapping[str, str]
Uploaded = tuple[str, int]  # the ETag and the size of a part
NONE = frozenset(
    {"NoSuchUpload"}
)  # some stores answer so if there never was an upload; S3 does not


def unfinished(session: Session, key: str) -> list[str]:
    """Return the ids of the unfinished uploads of *key*, newest last."""
    pages = session.look("s3").get_paginator("list_multipart_uploads")

    def ask() -> dict[str, Any]:
        answers = pages.paginate(Bucket=session.bucket, Prefix=key)
        return {"Uploads": [upload for page in answers for upload in listed(page, "Uploads")]}

    answer = absent(ask, f"look for uploads of {key}", NONE) or {}
    uploads = [upload for upload in answer.get("Uploads", ()) if upload["Key"] == key]
    return [upload["UploadId"] for upload in sorted(uploads, key=lambda u: str(u["Initiated"]))]


def drop(session: Session, key: str) -> None:
    """Abort every unfinished upload of *key*, since its parts cost as much as a complete object."""
    for upload in unfinished(session, key):
        _abort(session, key, upload)


def put(session: Session, key: str, blocks: Iterable[Content], size: int) -> None:
    """Upload *blocks*, at most *size* bytes, to *key*; an interrupted upload of it is continued.

    If the blocks end with Conflict, the upload is aborted. After any other error, the next call continues it.
    """
    begun = unfinished(session, key)
    upload = begun[-1] if begun else _begin(session, key)
    where = {"Bucket": session.bucket, "Key": key, "UploadId": upload}
    uploaded = _parts(session, where) if begun else {}
    try:
        sent = _send(session, where, parts(blocks, max(LEAST_BYTES, -(-size // PARTS))), uploaded)
    except Conflict:
        # The conflict is the error to report.
        with contextlib.suppress(RunspecError):
            _abort(session, key, upload)
        raise
    message = f"complete the upload of {where['Key']}"
    with translated(message):
        done = session.make("s3").complete_multipart_upload(
            **where, MultipartUpload={"Parts": sent}
        )
    if "ETag" not in done:
        raise NoAnswer(f"{message}: the reply was cut off")
    if begun:
        drop(session, key)


def _begin(session: Session, key: str) -> str:
    message = f"upload {key}"
    with translated(message):
        answer = session.make("s3").create_multipart_upload(Bucket=session.bucket, Key=key)
    return str(got(answer, "UploadId"))


def _abort(session: Session, key: str, upload: str) -> None:
    with translated(f"abort an upload of {key}"):
        session.look("s3").abort_multipart_upload(Bucket=session.bucket, Key=key, UploadId=upload)


def _send(
    session: Session, where: Where, parts: Iterable[Content], uploaded: Mapping[int, Uploaded]
) -> list[dict[str, Any]]:
    """Send the parts that are not *uploaded*; return what names all of them.

    A part whose ETag is not the MD5 of its content is sent again: see docs/unverified.md, aws-8.
    """
    s3, given_up = session.upload(), threading.Event()

    def sent(number: int, data: Content) -> dict[str, Any]:
        etag = _etag(data) if number in uploaded else ""
        if not etag or uploaded[number] != (etag, len(data)):
            with translated(f"upload {where['Key']}"):
                body = Body(data, given_up)
                etag = got(s3.upload_part(**where, PartNumber=number, Body=body), "ETag")
        if isinstance(data, HashedPart):
            data.release()
        return {"PartNumber": number, "ETag": etag}

    found: list[dict[str, Any]] = []
    with ThreadPoolExecutor(AT_ONCE) as threads:
        pending: deque[Future[dict[str, Any]]] = deque()
        try:
            for number, data in enumerate(parts, 1):
                if len(pending) == AT_ONCE:
                    found.append(pending.popleft().result())
                pending.append(threads.submit(sent, number, data))
            return found + [future.result() for future in pending]
        except BaseException:  # the threads are waited for now, also after Ctrl-C
            given_up.set()
            raise


def _etag(data: Content) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def _parts(session: Session, where: Where) -> dict[int, Uploaded]:
    """Return the ETag and size of each uploaded part; the ETag is the MD5 of the part unless KMS encrypts it."""
    pages = session.look("s3").get_paginator("list_parts")
    with translated(f"list the parts of {where['Key']}"):
        return {
            part["PartNumber"]: (part["ETag"], part["Size"])
            for page in pages.paginate(**where)
            for part in listed(page, "Parts")
        }


def parts(blocks: Iterable[Content], least: int) -> Iterator[Content]:
    """Yield the bytes of *blocks* in parts of at least *least* bytes; only the last one may be shorter.

    A block of that size becomes a part by itself where it can, so that its SHA-256 is known: see `HashedPart`.

    >>> [bytes(part) for part in parts([b"a", b"bcd", b"efg", b"h"], 3)]
    [b'abcd', b'efg', b'h']
    """
    rest = bytearray()
    for block in blocks:
        if len(rest) >= least:
            yield rest
            rest = bytearray()
        if not rest and len(block) >= least:
            yield block
        else:
            rest += block
    if rest:
        yield rest
