"""What a job does with the object store of its run: small records, whole files, lists."""

import hashlib
import os
import time
from http.client import HTTPException, HTTPResponse
from types import TracebackType
from typing import IO, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Type
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from . import boot
from .body import Body, Stream
from .boot import Answer, Ask, Pairs
from .words import LOST, USAGE, Failure

BLOCK = 1 << 20
PART_BYTES = (
    1 << 29
)  # one PUT takes at most 5 GiB: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
CLAIMS = 5  # tries, while others claim at the same moment

Opened = Callable[[], IO[bytes]]


class Object(NamedTuple):
    key: str  # without the prefix of the store
    size: int
    etag: str


class Window:
    """So many bytes of a file from *start* on, to be sent; a file that has become shorter is a Failure."""

    def __init__(self, opened: Opened, start: int, size: int) -> None:
        self._stream, self._left = opened(), size
        self._stream.seek(start)

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        block = self._stream.read(wanted)
        if len(block) < wanted:
            raise Failure("it changed while it was read")
        self._left -= len(block)
        return block

    def __enter__(self) -> "Window":  # noqa: PYI034 - typing.Self needs a newer Python
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._stream.close()


class Bucket:
    """Keys are below the prefix of `RUNSPEC_STORE`. Every method raises Failure when the store refuses."""

    new: Pairs = ()  # headers of every request that makes a whole object

    def __init__(self) -> None:
        self.store = self._opened_store()

    def _opened_store(self) -> boot.Store:
        return boot.Store()

    def get(self, key: str) -> Optional[bytes]:
        """Return None when there is nothing."""
        answer = self._send(Ask("GET", key))
        if answer.status == 404:
            return None
        return self._checked(answer, key).body

    def put(self, key: str, content: bytes) -> None:
        self._checked(self._send(Ask("PUT", key, (), content, self.new)), key)

    def claim(self, key: str, content: bytes) -> bytes:
        """Put *content* unless there is something already; return what is there."""
        headers = (("If-None-Match", "*"), *self.new)
        for count in range(CLAIMS):
            answer = self._send(Ask("PUT", key, (), content, headers))
            if answer.status not in (409, 412):
                self._checked(answer, key)
                return content
            found = self.get(key)  # somebody else's, or our own of a try whose reply was lost
            if found is not None:
                return found
            time.sleep(0.1 * 2**count)  # 409: another claim is under way, and not yet to be seen
        raise Failure("the claim {} has been taken away".format(key), LOST)

    def opened(self, key: str) -> Stream:
        """Return a stream of what is there."""

        def take(answer: HTTPResponse) -> Any:
            return answer if answer.status in (200, 206) else boot.whole(answer)

        def ask(headers: Dict[str, str]) -> HTTPResponse:
            found = self._send(Ask("GET", key, headers=tuple(headers.items())), take)
            if isinstance(found, Answer):
                self._checked(found, key)
            answer: HTTPResponse = found
            return answer

        return Body(key, ask)

    def get_file(self, key: str, path: str) -> None:
        with self.opened(key) as body:
            _write(body, path)

    def put_file(self, key: str, opened: Opened, size: int, digest: str) -> None:
        """Put *size* bytes whose SHA-256 is *digest*; the store refuses others, so a changing file is an error."""
        if size > PART_BYTES:
            self._put_parts(key, opened, size, digest)
        else:
            ask = Ask("PUT", key, (), lambda: Window(opened, 0, size), (), size, digest)
            self._checked(self._send(ask), key)

    def _put_parts(self, key: str, opened: Opened, size: int, digest: str) -> None:
        """https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html"""
        begun = self._asked(Ask("POST", key, (("uploads", ""),)))
        upload = _text(parsed(begun.body), "UploadId")
        try:
            self._complete(key, upload, self._parts(key, upload, opened, size, digest))
        except (OSError, Failure):
            self._forget(key, upload)
            raise

    def _forget(self, key: str, upload: str) -> None:
        """Parts that belong to nothing cost as much as a file, and are in no list."""
        try:
            self._send(Ask("DELETE", key, (("uploadId", upload),)))
        except Failure:  # what went wrong before is told
            pass

    def _parts(self, key: str, upload: str, opened: Opened, size: int, digest: str) -> List[str]:
        """Send the parts from the disk: of one in memory, and eight files at once, the job would have to die."""
        etags: List[str] = []
        together = hashlib.sha256()
        for start in range(0, size, PART_BYTES):
            wanted = min(PART_BYTES, size - start)

            def window(start: int = start, wanted: int = wanted) -> Window:
                return Window(opened, start, wanted)

            found = _digest(window, wanted, together)
            query = (("partNumber", str(len(etags) + 1)), ("uploadId", upload))
            sent = self._asked(Ask("PUT", key, query, window, (), wanted, found))
            etags.append(sent.headers["ETag"])
        if together.hexdigest() != digest:
            raise Failure("it changed while it was read")
        return etags

    def _complete(self, key: str, upload: str, etags: List[str]) -> None:
        listed = "".join(
            "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>".format(n, etag)
            for n, etag in enumerate(etags, 1)
        )
        text = "<CompleteMultipartUpload>{}</CompleteMultipartUpload>".format(listed).encode()
        done = self._asked(Ask("POST", key, (("uploadId", upload),), text))
        if b"<Error>" in done.body:  # a 200 may hold one
            raise Failure("{}: the store could not put its parts together".format(key), LOST)

    def listing(self, prefix: str) -> Iterator[Object]:
        """Yield all under *prefix*, in the order of keys."""
        begin = len(self.store.prefix) + 1
        token = ""
        while True:
            # Keys may hold what XML cannot.
            query = [("list-type", "2"), ("encoding-type", "url")]
            query += [("prefix", self.store.prefix + "/" + prefix)]
            query += [("continuation-token", token)] if token else []
            page = parsed(self._asked(Ask("GET", "", query)).body)
            for found in page.iter(NAMESPACE + "Contents"):
                key = unquote_plus(_text(found, "Key"))
                yield Object(key[begin:], int(_text(found, "Size")), _text(found, "ETag"))
            if _text(page, "IsTruncated") != "true":
                return
            token = _text(page, "NextContinuationToken")

    def _asked(self, ask: Ask) -> Answer:
        return self._checked(self._send(ask), ask.key)

    def _send(self, ask: Ask, take: Callable[[HTTPResponse], Any] = boot.whole) -> Any:
        try:
            return self.store.send(ask, take)
        except (OSError, ValueError, LookupError, HTTPException) as error:
            raise Failure("the store cannot be reached: {}".format(error), LOST) from error

    def _checked(self, answer: Answer, key: str) -> Answer:
        if answer.status not in (200, 204):
            code = answer.body.partition(b"<Code>")[2].partition(b"</Code>")[0]
            text = "the store refuses {}: {} {}".format(
                key or self.store.bucket, answer.status, code.decode("ascii", "replace")
            )
            raise Failure(text.rstrip(), LOST)
        return answer


def _write(body: Stream, path: str) -> None:
    """A disk that is full is no fault of the store, which is not asked again."""
    try:
        with open(path, "wb") as target:
            while True:
                block = body.read()
                if not block:
                    return
                target.write(block)
    except OSError as error:
        raise Failure("{}: {}".format(path, error.strerror), USAGE) from error


def parsed(content: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise Failure("the store answers what is no XML: {}".format(error), LOST) from error


def _text(found: ElementTree.Element, name: str) -> str:
    return found.findtext(NAMESPACE + name) or ""


def _digest(window: Callable[[], Window], size: int, together: Any) -> str:
    """Return the SHA-256 of *size* bytes, which go into that of the whole, too."""
    own = hashlib.sha256()
    with window() as stream:
        for start in range(0, size, BLOCK):
            block = stream.read(min(BLOCK, size - start))
            own.update(block)
            together.update(block)
    return own.hexdigest()


def file_digest(path: str) -> Tuple[int, str]:
    """Return the size and SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while True:
            block = stream.read(BLOCK)
            if not block:
                return os.fstat(stream.fileno()).st_size, digest.hexdigest()
            digest.update(block)
