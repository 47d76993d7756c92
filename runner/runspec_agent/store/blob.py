"""The store of a run in a container of Azure Blob Storage, with a signature or an identity.

https://learn.microsoft.com/en-us/rest/api/storageservices/blob-service-rest-api
"""

import base64
import calendar
import hashlib
import os
import re
import time
from http.client import HTTPException, HTTPResponse
from typing import Any, Callable, Dict, Iterator, List, Mapping, Tuple, Union
from urllib.parse import parse_qsl, unquote
from xml.etree import ElementTree

from runspec_agent.base import boot
from runspec_agent.base.boot import PASSING, Answer, Ask, Pairs
from runspec_agent.base.failure import NoName
from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.store.base import Object, Opened, Window
from runspec_agent.store.managed_identity import Login
from runspec_agent.store.s3 import CUT_LIST, S3Bucket, S3Store, copy_of, parsed
from runspec_agent.store.workload_identity import BlobLogin, find_azure

VERSION = "2021-12-02"  # since 2021-02-12, lists can contain names that XML cannot
SMALL_BYTES = (
    4 << 20
)  # up to here a file is one request, and in memory: it is checked before it goes
# 50,000 blocks of 4,000 MiB at the most: https://learn.microsoft.com/en-us/rest/api/storageservices/put-block
BLOCK_BYTES = 64 << 20
BLOCKS = 50000
# https://learn.microsoft.com/en-us/rest/api/storageservices/copy-blob-from-url
COPY_BYTES = 256 << 20  # the most bytes that one request copies
COPY_URL_BYTES = 2048  # length limit of the source's URL, with the signature
LONGEST_S = 120.0
REFUSED = 77  # EX_NOPERM of sysexits.h: another attempt does not help
# https://learn.microsoft.com/en-us/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
# XML holds neither of the last two, so that no list could name the blob and nobody delete it.
CONTROLS = re.compile("[\\x00-\\x1f\\x7f\\x81\\ufffe\\uffff]")
WHOLE = (("x-ms-blob-type", "BlockBlob"),)


class BlobStore(S3Store):
    """A store at `RUNSPEC_STORE`: https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX, without escapes.

    `RUNSPEC_BLOB_URL` is the part of it before the container, if that is more than the host.
    """

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        where = env["RUNSPEC_STORE"].encode("utf-8", "surrogateescape").decode("utf-8")
        scheme, _, rest = where.partition("://")
        self.https = scheme == "https"
        self.host, _, path = rest.partition("/")
        below = env.get("RUNSPEC_BLOB_URL", "").partition("://")[2].partition("/")[2]
        parts = path.split("/", 1 + len(below.split("/")) if below else 1)
        self.bucket, self.prefix = "/".join(parts[:-1]), parts[-1]
        self._sas = env.get("RUNSPEC_SAS", "").lstrip("?")
        self.login: Union[Login, BlobLogin, None] = None
        if not self._sas and env.get("RUNSPEC_IDENTITY"):
            self.login = Login(env["RUNSPEC_IDENTITY"], env)
        elif not self._sas:
            self.login = find_azure(env)
        if self.login is None and not re.fullmatch(r"[!-~]+", self._sas):
            raise Failure("RUNSPEC_SAS is not the query of a signature")

    def send(self, ask: Ask, take: Callable[[HTTPResponse], Any] = boot.whole) -> Any:
        """Return what *take* makes of the answer; repeat failed requests after the pause that Azure asks for.

        https://learn.microsoft.com/en-us/rest/api/storageservices/common-rest-api-error-codes
        """
        for count in range(1, self.tries + 1):
            pause_s = 0.25 * 2**count
            try:
                answer = take(self.send_once(ask))
                if answer.status not in PASSING or count == self.tries:
                    return answer
                # The header may also be a date, which Azure does not send.
                asked = answer.headers["Retry-After"] or ""
                pause_s = max(pause_s, (min(float(asked), LONGEST_S) if asked.isdecimal() else 0.0))
            except (OSError, HTTPException) as error:
                if count == self.tries:  # the error may contain the URL, and with it the signature
                    text = str(error)
                    raise OSError(text.replace(self._sas, "***") if self._sas else text) from None
            time.sleep(pause_s)
        raise AssertionError("BUG: the last attempt returns or raises")

    def path_of(self, ask: Ask) -> Tuple[str, str]:
        if CONTROLS.search(ask.key):
            raise NoName("Azure Blob accepts no name with control characters")
        path, query = super().path_of(ask)
        return path, query + "&" * bool(query and self._sas) + self._sas

    def sign(self, ask: Ask, path: str, query: str) -> Dict[str, str]:
        headers = {"Host": self.host, "x-ms-version": VERSION, **dict(ask.headers)}
        if self.login is not None:
            headers["Authorization"] = "Bearer " + self.login.token()
        return headers

    def source(self, key: str) -> Pairs:
        """Return the headers that name *key* as the source of a copy, with permission to read it.

        https://learn.microsoft.com/en-us/rest/api/storageservices/put-block-from-url#request-headers
        """
        path, query = self.path_of(Ask("GET", key))
        scheme = "https" if self.https else "http"
        url = "{}://{}{}{}".format(scheme, self.host, path, "?" * bool(query) + query)
        if len(url) > COPY_URL_BYTES:
            text = "the name {} is too long to be copied in Azure Blob: its URL has {} bytes, and the limit is {}"
            raise Failure(text.format(key, len(url), COPY_URL_BYTES))
        if self.login is None:
            return (("x-ms-copy-source", url),)
        right = "Bearer " + self.login.token()
        return ("x-ms-copy-source", url), ("x-ms-copy-source-authorization", right)

    @property
    def means(self) -> str:
        """Return what requests are authorized with, for messages."""
        if self._sas:
            return "the signature of this run (RUNSPEC_SAS)"
        return "RUNSPEC_IDENTITY" if isinstance(self.login, Login) else "the identity of this pod"

    def ended(self, now: float) -> str:
        """Return when the signature expired, if it has by *now*; otherwise ""."""
        end = dict(parse_qsl(self._sas)).get("se", "")
        try:
            moment = calendar.timegm(time.strptime(end[:19], "%Y-%m-%dT%H:%M:%S"))
        except ValueError:  # a date without time, or without seconds
            return ""
        return end if moment <= now else ""


class BlobBucket(S3Bucket):
    """The operations of S3Bucket, with the protocol of Azure Blob."""

    private: Tuple[str, ...] = ("RUNSPEC_SAS", "RUNSPEC_IDENTITY")
    new: Pairs = WHOLE
    store: BlobStore

    def _opened_store(self) -> BlobStore:
        return BlobStore()

    def put_file(self, key: str, opened: Opened, size: int, digest: str) -> None:
        if size > SMALL_BYTES:
            self._put_parts(key, opened, size, digest)
            return
        with Window(opened, 0, size) as stream:
            content = stream.read()
        _compare(hashlib.sha256(content), digest)
        self.put(key, content)

    def _put_parts(self, key: str, opened: Opened, size: int, digest: str) -> None:
        """Upload blocks from the disk, and commit them if the whole file has the expected digest.

        Azure deletes uncommitted blocks after a week. Another writer of the same blob, such as a node that is thought
        lost, uses other block ids, because blocks with equal ids replace each other. All ids have one length.

        https://learn.microsoft.com/en-us/rest/api/storageservices/put-block-list
        """
        step = _step(size)
        names: List[str] = []
        token = os.urandom(8).hex()
        together: Any = hashlib.sha256()
        for start in range(0, size, step):
            names.append(_block(token, len(names)))
            wanted = min(step, size - start)
            tried: List[_Summed] = []

            def window(
                start: int = start, wanted: int = wanted, together: Any = together
            ) -> "_Summed":
                tried.append(_Summed(opened, start, wanted, together.copy()))  # noqa: B023 - used at once
                return tried[-1]  # noqa: B023

            query = (("comp", "block"), ("blockid", names[-1]))
            self.request(Ask("PUT", key, query, window, (), wanted))
            together = tried[-1].sum
        _compare(together, digest)
        self._put_list(key, names)

    def _put_list(self, key: str, names: List[str]) -> None:
        listed = "".join("<Latest>{}</Latest>".format(name) for name in names)
        text = "<BlockList>{}</BlockList>".format(listed).encode("ascii")
        self.request(Ask("PUT", key, (("comp", "blocklist"),), text))

    def copy(self, source: str, target: str, size: int) -> None:
        """Copy with requests that return when the copy is complete, and accept a signature or token for the source.

        "Copy Blob" may end later, and takes no token for the source.
        https://learn.microsoft.com/en-us/rest/api/storageservices/copy-blob-from-url
        """
        if size > COPY_BYTES:
            self._copy_blocks(source, target, size)
            return
        headers = (("x-ms-requires-sync", "true"), *self.store.source(source))
        answer = self._copied(source, Ask("PUT", target, (), b"", headers))
        if answer.headers["x-ms-copy-status"] != "success":
            raise Failure("the store failed to complete {}".format(copy_of(source, target)), LOST)

    def _copy_blocks(self, source: str, target: str, size: int) -> None:
        """https://learn.microsoft.com/en-us/rest/api/storageservices/put-block-from-url"""
        step, token = _step(size), os.urandom(8).hex()
        names: List[str] = []
        for start in range(0, size, step):
            names.append(_block(token, len(names)))
            wanted = "bytes={}-{}".format(start, min(start + step, size) - 1)
            headers = (("x-ms-source-range", wanted), *self.store.source(source))
            query = (("comp", "block"), ("blockid", names[-1]))
            self._copied(source, Ask("PUT", target, query, b"", headers))
        self._put_list(target, names)

    def listing(self, prefix: str) -> Iterator[Object]:
        """https://learn.microsoft.com/en-us/rest/api/storageservices/list-blobs"""
        begin = len(self.store.start)
        marker = ""
        while True:
            query = [("restype", "container"), ("comp", "list")]
            query += [("prefix", self.store.start + prefix)]
            query += [("marker", marker)] if marker else []
            page = parsed(self.request(Ask("GET", "", query)).body)
            if page.find("Blobs") is None or page.find("NextMarker") is None:
                raise Failure(
                    CUT_LIST, LOST
                )  # every page has both elements: the last has an empty marker
            for blob in page.iter("Blob"):
                name, size = name_of(blob), blob.findtext("Properties/Content-Length") or ""
                if not name or not size.isdigit():
                    raise Failure(CUT_LIST, LOST)
                yield Object(name[begin:], int(size), blob.findtext("Properties/Etag") or "")
            marker = page.findtext("NextMarker") or ""
            if not marker:
                return

    def _checked(self, answer: Answer, key: str) -> Answer:
        """https://learn.microsoft.com/en-us/rest/api/storageservices/blob-service-error-codes"""
        if answer.status in (201, 202, 206):
            return answer
        code = (
            answer.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode("ascii", "replace")
        )
        if answer.status in (401, 403) and code.startswith(("Auth", "InvalidAuth")):
            ended = self.store.ended(time.time() + boot.skew_s(answer))
            why = ("it expired at {}".format(ended) if ended else code) + boot.skewed(answer)
            raise Failure("the store rejects {}: {}".format(self.store.means, why), REFUSED)
        return super()._checked(answer, key)


class _Summed(Window):
    """A part of a file that also updates the hash *sum* as it is read."""

    def __init__(self, opened: Opened, start: int, size: int, before: Any) -> None:
        super().__init__(opened, start, size)
        self.sum = before

    def read(self, size: int = -1) -> bytes:
        block = super().read(size)
        self.sum.update(block)
        return block


def _step(size: int) -> int:
    return max(BLOCK_BYTES, -(-size // BLOCKS))


def _block(token: str, number: int) -> str:
    return base64.b64encode("{}{:08}".format(token, number).encode("ascii")).decode("ascii")


def _compare(hasher: Any, digest: str) -> None:
    if hasher.hexdigest() != digest:
        raise Failure("the file changed while it was read", USAGE)


def name_of(blob: ElementTree.Element) -> str:
    name = blob.find("Name")
    text = "" if name is None else name.text or ""
    return unquote(text) if name is not None and name.get("Encoded") == "true" else text
