"""The store of a run in S3: see `base`."""

import copy
import hashlib
import os
import re
import threading
import time
from http.client import HTTPException, HTTPResponse
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from runspec_agent.base import boot
from runspec_agent.base.boot import Answer, Ask, Pairs
from runspec_agent.base.failure import NoName
from runspec_agent.base.job_env import LOST, USAGE, Failure, NoSpace
from runspec_agent.store import workload_identity
from runspec_agent.store.base import BLOCK, Bucket, Object, Opened, Stream, Window
from runspec_agent.store.ranged_read import RangedReader, whole

PART_BYTES = (
    1 << 29
)  # one PUT takes at most 5 GiB: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
PARTS = 10000  # at most: the same page
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
# AWS's own S3 is never full. RFC 4918, section 11.5; https://docs.ceph.com/en/latest/radosgw/s3/#common-error-responses
FULL_STATUS, FULL_CODES = 507, (b"XMinioStorageFull", b"QuotaExceeded")
CUT_LIST = "the store's list of objects was cut off"
CONTROLS = re.compile("[\\x00-\\x1f\\x7f]")
CLAIMS = 5  # attempts, while others claim at the same moment


_signing = threading.local()
_credentials_of_boot = boot.credentials


def _credentials() -> boot.Keys:
    keys: Optional[boot.Keys] = getattr(_signing, "keys", None)
    return _credentials_of_boot() if keys is None else keys


# `boot` travels in requests, and has only what every machine of AWS needs; it looks this name up for each signature.
boot.credentials = _credentials


class S3Store(boot.Store):
    printable = False

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        super().__init__(env)
        self.keys = workload_identity.find_aws(env, self.region)
        self.printable = bool(env.get("RUNSPEC_PRINTABLE"))

    def sign(self, ask: Ask, path: str, query: str) -> Dict[str, str]:
        if self.keys is None:
            return super().sign(ask, path, query)
        _signing.keys = self.keys()
        try:
            return super().sign(ask, path, query)
        finally:
            _signing.keys = None

    def path_of(self, ask: Ask) -> Tuple[str, str]:
        """Return the path and query of a request; one that is not UTF-8 could be in no list, and not be deleted."""
        try:
            ask.key.encode("utf-8", "surrogateescape").decode("utf-8")
        except UnicodeError:
            raise NoName("the store accepts no name that is not UTF-8") from None
        path, query = super().path_of(ask)
        # Without a prefix, the path has a slash that is none of the key.
        at = len(self.bucket) + 1
        return path if self.prefix or not ask.key else path[:at] + path[at + 1 :], query

    @property
    def start(self) -> str:
        """What every key of the store begins with in its bucket."""
        return self.prefix + "/" if self.prefix else ""

    def source(self, key: str) -> Pairs:
        """Return the headers that name *key* as the source of a copy."""
        return (("x-amz-copy-source", self.path_of(Ask("GET", key))[0]),)


class S3Bucket(Bucket):
    """Keys are below the prefix of `RUNSPEC_STORE`."""

    private: Tuple[str, ...] = workload_identity.OWN_KEYS
    new: Pairs = ()  # headers of every request that writes a whole object

    def __init__(self) -> None:
        self.store = self._opened_store()

    def _opened_store(self) -> S3Store:
        return S3Store()

    def get(self, key: str) -> Optional[bytes]:
        answer = self.send(Ask("GET", key))
        if answer.status == 404:
            return None
        return self._checked(answer, key).body

    def put(self, key: str, content: bytes) -> None:
        self._checked(self.send(Ask("PUT", key, (), content, self.new)), key)

    def claim(self, key: str, content: bytes) -> bytes:
        headers = (("If-None-Match", "*"), *self.new)
        for count in range(CLAIMS):
            answer = self.send(Ask("PUT", key, (), content, headers))
            if answer.status not in (409, 412):
                self._checked(answer, key)
                return content
            holder = self.get(key)  # another job's, or this one's if a reply was lost
            if holder is not None:
                return holder
            time.sleep(0.1 * 2**count)  # 409: another write is in progress, and not visible yet
        raise Failure("the claim {} has been deleted".format(key), LOST)

    def fetch(self, key: str) -> Optional[Tuple[bytes, str]]:
        answer = self.send(Ask("GET", key))
        if answer.status == 404:
            return None
        self._checked(answer, key)
        return answer.body, _version(answer, key)

    def swap(self, key: str, content: bytes, version: Optional[str]) -> Optional[str]:
        """Write with `If-Match` or `If-None-Match`.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html

        https://learn.microsoft.com/en-us/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations
        """
        condition = ("If-Match", version) if version is not None else ("If-None-Match", "*")
        answer = self.send(Ask("PUT", key, (), content, (condition, *self.new)))
        # 409: another write is in progress; 404: the object has been deleted.
        if answer.status not in ((409, 412) if version is None else (404, 409, 412)):
            version = self._checked(answer, key).headers["ETag"]
            if version:
                return str(version)
        current = self.fetch(key)
        return current[1] if current is not None and current[0] == content else None

    def apart(self) -> Bucket:
        client = copy.copy(self)
        client.store = copy.copy(self.store)
        return client

    def hasten(self, seconds: float) -> None:
        self.store.tries, self.store.timeout_s = 1, seconds

    def opened(self, key: str) -> Stream:
        def take(answer: HTTPResponse) -> Any:
            return answer if answer.status in (200, 206) else whole(answer)

        def ask(headers: Dict[str, str]) -> HTTPResponse:
            reply = self.send(Ask("GET", key, headers=tuple(headers.items())), take)
            if isinstance(reply, Answer):
                self._checked(reply, key)
            answer: HTTPResponse = reply
            return answer

        return RangedReader(key, ask)

    def put_file(self, key: str, opened: Opened, size: int, digest: str) -> None:
        if size > PART_BYTES:
            self._put_parts(key, opened, size, digest)
        else:
            ask = Ask("PUT", key, (), lambda: Window(opened, 0, size), (), size, digest)
            self._checked(self.send(ask), key)

    def _put_parts(self, key: str, opened: Opened, size: int, digest: str) -> None:
        self._in_parts(key, lambda upload: self._parts(key, upload, opened, size, digest))

    def _in_parts(self, key: str, send: Callable[[str], List[str]]) -> None:
        """Make an object of the parts that *send* uploads; it gets the upload's id and returns their ETags.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
        """
        begun = self.request(Ask("POST", key, (("uploads", ""),)))
        upload = _text(parsed(begun.body), "UploadId")
        if not upload:
            raise Failure("{}: the store's answer was cut off".format(key), LOST)
        try:
            self._complete(key, upload, send(upload))
        except (OSError, Failure):
            self._forget(key, upload)
            raise

    def _forget(self, key: str, upload: str) -> None:
        """Abort the upload, because the parts of an incomplete upload cost as much as a file and no list shows them."""
        try:
            self.send(Ask("DELETE", key, (("uploadId", upload),)))
        except Failure:  # the first error is reported
            pass

    def _parts(self, key: str, upload: str, opened: Opened, size: int, digest: str) -> List[str]:
        """Upload the parts from the disk, because parts of eight files at once might not fit into memory."""
        etags: List[str] = []
        together = hashlib.sha256()
        for start in range(0, size, PART_BYTES):
            wanted = min(PART_BYTES, size - start)

            def window(start: int = start, wanted: int = wanted) -> Window:
                return Window(opened, start, wanted)

            digested = _digest(window, wanted, together)
            query = (("partNumber", str(len(etags) + 1)), ("uploadId", upload))
            sent = self.request(Ask("PUT", key, query, window, (), wanted, digested))
            etags.append(_version(sent, key))
        if together.hexdigest() != digest:
            raise Failure("the file changed while it was read")
        return etags

    def _complete(self, key: str, upload: str, etags: List[str]) -> None:
        listed = "".join(
            "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>".format(n, etag)
            for n, etag in enumerate(etags, 1)
        )
        text = "<CompleteMultipartUpload>{}</CompleteMultipartUpload>".format(listed).encode()
        done = self.request(Ask("POST", key, (("uploadId", upload),), text))
        if not parsed(done.body).tag.endswith(
            "CompleteMultipartUploadResult"
        ):  # the body of a 200 may be an error
            raise Failure("{}: the store could not complete the upload".format(key), LOST)

    def copy(self, source: str, target: str, size: int) -> None:
        """Copy up to PART_BYTES in one request, and more in parts; S3's limit for one request is 5 GiB.

        The source's tags are not copied: that would need `s3:GetObjectTagging` and `s3:PutObjectTagging`. With
        `RUNSPEC_PRINTABLE`, *target* may have no control characters: the client of the run, obstore, cannot list them.

        https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html
        """
        if self.store.printable and CONTROLS.search(target):
            raise NoName("its client cannot list a name with control characters")
        if size > PART_BYTES:
            self._in_parts(target, lambda upload: self._copied_parts(source, target, upload, size))
        else:
            untagged = ("x-amz-tagging-directive", "REPLACE")
            headers = (*self.store.source(source), untagged, *self.new)
            answer = self._copied(source, Ask("PUT", target, (), b"", headers))
            _result(answer, source, target, "CopyObjectResult")

    def _copied_parts(self, source: str, target: str, upload: str, size: int) -> List[str]:
        """Copy in parts: https://docs.aws.amazon.com/AmazonS3/latest/API/API_UploadPartCopy.html"""
        etags: List[str] = []
        step = max(PART_BYTES, -(-size // PARTS))
        for start in range(0, size, step):
            query = (("partNumber", str(len(etags) + 1)), ("uploadId", upload))
            wanted = "bytes={}-{}".format(start, min(start + step, size) - 1)
            headers = (*self.store.source(source), ("x-amz-copy-source-range", wanted))
            answer = self._copied(source, Ask("PUT", target, query, b"", headers))
            result = _result(answer, source, target, "CopyPartResult")
            etag = next((part.text for part in result if part.tag.endswith("ETag")), None)
            if not etag:
                raise Failure("{}: the store's answer has no ETag".format(target), LOST)
            etags.append(etag)
        return etags

    def _copied(self, source: str, ask: Ask) -> Answer:
        return self._checked(self.send(ask), copy_of(source, ask.key))

    def delete(self, key: str) -> None:
        answer = self.send(Ask("DELETE", key))
        if answer.status != 404:
            self._checked(answer, key)

    def listing(self, prefix: str) -> Iterator[Object]:
        begin = len(self.store.start)
        token = ""
        while True:
            # Keys may contain characters that XML cannot.
            query = [("list-type", "2"), ("encoding-type", "url")]
            query += [("prefix", self.store.start + prefix)]
            query += [("continuation-token", token)] if token else []
            page = parsed(self.request(Ask("GET", "", query)).body)
            for item in page.iter(NAMESPACE + "Contents"):
                key = unquote_plus(_text(item, "Key"))
                size = _text(item, "Size")
                if not key or not size.isdigit():
                    raise Failure(CUT_LIST, LOST)
                yield Object(key[begin:], int(size), _text(item, "ETag"))
            if _text(page, "IsTruncated") == "false":
                return
            token = _text(page, "NextContinuationToken")
            if not token:
                raise Failure(CUT_LIST, LOST)

    def request(self, ask: Ask) -> Answer:
        return self._checked(self.send(ask), ask.key)

    def send(self, ask: Ask, take: Callable[[HTTPResponse], Any] = whole) -> Any:
        try:
            return self.store.send(ask, take)
        except boot.Untrusted as error:
            raise Failure(str(error), error.code) from error
        except (OSError, ValueError, LookupError, HTTPException) as error:
            raise Failure("cannot reach the store: {}".format(error), LOST) from error

    def _checked(self, answer: Answer, key: str) -> Answer:
        if answer.status not in (200, 204):
            code = answer.body.partition(b"<Code>")[2].partition(b"</Code>")[0]
            text = "the store refuses {}: {} {}".format(
                key or self.store.bucket, answer.status, code.decode("ascii", "replace")
            )
            if answer.status == FULL_STATUS or code in FULL_CODES:
                raise NoSpace(text.rstrip())
            # 501: the store does not know the request, such as a conditional write, and repeating it is useless.
            ends = USAGE if answer.status == 501 else LOST
            raise Failure(text.rstrip() + boot.skewed(answer), ends)
        return answer


def _version(answer: Answer, key: str) -> str:
    version: Optional[str] = answer.headers["ETag"]
    if not version:
        raise Failure("{}: the store's answer has no ETag".format(key), LOST)
    return version


def parsed(content: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(content.lstrip())  # S3 sends spaces while a long copy runs
    except ElementTree.ParseError as error:
        raise Failure("the store's answer is not XML: {}".format(error), LOST) from error


def copy_of(source: str, target: str) -> str:
    return "a copy of {} to {}".format(source, target)


def _result(answer: Answer, source: str, target: str, tag: str) -> ElementTree.Element:
    """Return the result of a copy, whose status may be 200 although the body is an error."""
    result = parsed(answer.body)
    if not result.tag.endswith(tag):
        code = next((part.text for part in result if part.tag.endswith("Code")), None)
        what = copy_of(source, target)
        raise Failure("the store failed to complete {}: {}".format(what, code or result.tag), LOST)
    return result


def _text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(NAMESPACE + name) or ""


def _digest(window: Callable[[], Window], size: int, together: Any) -> str:
    """Return the SHA-256 of *size* bytes, and add them to the hash of the whole file."""
    hasher = hashlib.sha256()
    with window() as stream:
        for start in range(0, size, BLOCK):
            block = stream.read(min(BLOCK, size - start))
            hasher.update(block)
            together.update(block)
    return hasher.hexdigest()
