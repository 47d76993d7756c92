"""What a job does with the object store of its run: small records, whole files, lists."""

import hashlib
import os
import shutil
from http.client import HTTPException, HTTPResponse
from typing import IO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple
from xml.etree import ElementTree

from . import boot
from .words import LOST, Failure

BLOCK = 1 << 20
PART_BYTES = (
    1 << 29
)  # one PUT takes at most 5 GiB: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Object(NamedTuple):
    key: str  # without the prefix of the store
    size: int
    etag: str


class Bucket:
    """Keys are below the prefix of `RUNSPEC_STORE`. Every method raises Failure when the store refuses."""

    def __init__(self) -> None:
        self.store = boot.Store()

    def get(self, key: str) -> Optional[bytes]:
        """Return None when there is nothing."""
        answer = self._send("GET", key)
        body: bytes = answer.read()
        if answer.status == 404:
            return None
        self._check(answer, body, key)
        return body

    def put(self, key: str, content: bytes) -> None:
        answer = self._send("PUT", key, body=content, digest=hashlib.sha256(content).hexdigest())
        self._check(answer, answer.read(), key)

    def claim(self, key: str, content: bytes) -> bytes:
        """Put *content* unless there is something already; return what is there."""
        digest = hashlib.sha256(content).hexdigest()
        answer = self._send("PUT", key, body=content, digest=digest, headers={"If-None-Match": "*"})
        body = answer.read()
        if answer.status in (409, 412):  # somebody else's, or our own of a try whose reply was lost
            found = self.get(key)
            if found is None:
                raise Failure("the claim {} has been taken away".format(key), LOST)
            return found
        self._check(answer, body, key)
        return content

    def opened(self, key: str) -> HTTPResponse:
        """Return a stream of what is there; reading less than there is raises IncompleteRead."""
        answer = self._send("GET", key)
        if answer.status != 200:
            self._check(answer, answer.read(), key)
            raise Failure("{}: the store answers {}".format(key, answer.status), LOST)
        return answer

    def get_file(self, key: str, path: str) -> None:
        with self.opened(key) as answer, open(path, "wb") as target:
            shutil.copyfileobj(answer, target, BLOCK)
            if target.tell() != int(answer.headers["Content-Length"]):
                raise Failure("{} came only in part".format(key), LOST)

    def put_file(self, key: str, opened: Callable[[], IO[bytes]], size: int, digest: str) -> None:
        """Put *size* bytes whose SHA-256 is *digest*; the store refuses others, so a changing file is an error."""
        if size > PART_BYTES:
            self._put_parts(key, opened, size)
            return
        answer = self._send("PUT", key, body=opened, digest=digest, size=size)
        self._check(answer, answer.read(), key)

    def _put_parts(self, key: str, opened: Callable[[], IO[bytes]], size: int) -> None:
        """https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html"""
        begun = self._asked("POST", key, (("uploads", ""),))
        upload = _text(ElementTree.fromstring(begun), "UploadId")
        parts: List[str] = []
        with opened() as stream:
            while stream.tell() < size:
                part = stream.read(min(PART_BYTES, size - stream.tell()))
                query = (("partNumber", str(len(parts) + 1)), ("uploadId", upload))
                digest = hashlib.sha256(part).hexdigest()
                answer = self._send("PUT", key, query, part, digest)
                self._check(answer, answer.read(), key)
                parts.append(answer.headers["ETag"])
        listed = "".join(
            "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>".format(n, etag)
            for n, etag in enumerate(parts, 1)
        )
        text = "<CompleteMultipartUpload>{}</CompleteMultipartUpload>".format(listed).encode()
        done = self._asked("POST", key, (("uploadId", upload),), text)
        if b"<Error>" in done:  # a 200 may hold one
            raise Failure("{}: the store could not put its parts together".format(key), LOST)

    def listing(self, prefix: str) -> Iterator[Object]:
        """Yield all under *prefix*, in the order of keys."""
        begin = len(self.store.prefix) + 1
        token = ""
        while True:
            query = [("list-type", "2"), ("prefix", self.store.prefix + "/" + prefix)]
            query += [("continuation-token", token)] if token else []
            page = ElementTree.fromstring(self._asked("GET", "", tuple(query)))
            for found in page.iter(NAMESPACE + "Contents"):
                yield Object(
                    _text(found, "Key")[begin:], int(_text(found, "Size")), _text(found, "ETag")
                )
            if _text(page, "IsTruncated") != "true":
                return
            token = _text(page, "NextContinuationToken")

    def _asked(
        self, method: str, key: str, query: Tuple[Tuple[str, str], ...], body: bytes = b""
    ) -> bytes:
        answer = self._send(method, key, query, body, hashlib.sha256(body).hexdigest())
        content: bytes = answer.read()
        self._check(answer, content, key)
        return content

    def _send(
        self,
        method: str,
        key: str,
        query: boot.Query = (),
        body: boot.Body = b"",
        digest: str = boot.EMPTY,
        headers: Optional[Dict[str, str]] = None,
        size: int = 0,
    ) -> HTTPResponse:
        try:
            return self.store.send(method, key, query, body, digest, headers, size)
        except (OSError, ValueError, KeyError, HTTPException) as error:
            raise Failure("the store cannot be reached: {}".format(error), LOST) from error

    def _check(self, answer: HTTPResponse, body: bytes, key: str) -> None:
        if answer.status not in (200, 204):
            code = body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode("ascii", "replace")
            text = "the store refuses {}: {} {}".format(
                key or self.store.bucket, answer.status, code
            )
            raise Failure(text.rstrip(), LOST)


def _text(found: ElementTree.Element, name: str) -> str:
    return found.findtext(NAMESPACE + name) or ""


def file_digest(path: str) -> Tuple[int, str]:
    """Return the size and SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while True:
            block = stream.read(BLOCK)
            if not block:
                return os.fstat(stream.fileno()).st_size, digest.hexdigest()
            digest.update(block)
