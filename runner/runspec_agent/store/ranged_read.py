"""Read an object of the store from beginning to end, over as many connections as needed."""

import time
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Callable, Dict, List

from runspec_agent.base.boot import Answer
from runspec_agent.base.job_env import LOST, Failure
from runspec_agent.store.base import BLOCK, Stream

PATIENCE_S = 120.0  # before the pace of a reply counts
SLOWEST_BYTES = 1024  # a second: no link of a machine is slower for long
TRIES = 6  # without a byte in between

Asks = Callable[[Dict[str, str]], HTTPResponse]
"""A function that requests the object with more headers; it raises Failure if the store refuses."""


class Pace:
    """A limit for the time of a whole reply. Each read has a timeout of its own, which begins again with each byte."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._began, self._count = now, now(), 0

    def add(self, count: int) -> None:
        """Note that *count* bytes came. Raise OSError if the reply is too slow."""
        self._count += count
        waited_s = self._now() - self._began
        if waited_s > PATIENCE_S + self._count / SLOWEST_BYTES:
            text = "the store is too slow: it sent {} bytes in {:.0f} s"
            raise OSError(text.format(self._count, waited_s))


def whole(answer: HTTPResponse) -> Answer:
    """Return a reply with its body, as `boot.whole` does, if it comes in time."""
    pace, left = Pace(), answer.length  # None: in chunks, or up to the end of the connection
    blocks: List[bytes] = []
    with answer:
        while left is None or left > 0:
            block = answer.read1(BLOCK if left is None else min(BLOCK, left))
            if not block:
                break
            blocks.append(block)
            pace.add(len(block))
            left = None if left is None else left - len(block)
        if left:
            raise IncompleteRead(b"".join(blocks), left)
    return Answer(answer.status, answer.headers, b"".join(blocks))


class RangedReader(Stream):
    """A reader that continues an interrupted reply with a range request, if the object has not changed.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html (Range, If-Match)
    """

    def __init__(self, key: str, ask: Asks) -> None:
        self._key, self._ask = key, ask
        self._answer = ask({})
        self._etag = self._answer.headers["ETag"]
        self.size = int(self._answer.headers["Content-Length"])
        self.at = 0
        self._pace = Pace()

    def read(self, size: int = BLOCK) -> bytes:
        broken: List[str] = []
        while self.at < self.size:
            block = self._next(min(size, self.size - self.at), broken)
            if block:
                self.at += len(block)
                return block
            if len(broken) == TRIES or not self._etag:
                raise self._failure(broken[-1])
            time.sleep(0.25 * 2 ** len(broken))
            self._again()
        return b""

    def _next(self, size: int, broken: List[str]) -> bytes:
        try:
            block = self._answer.read1(size)
            if not block:
                broken.append("{} bytes are missing".format(self.size - self.at))
        except (OSError, HTTPException) as error:
            broken.append(str(error))
            return b""
        try:
            self._pace.add(len(block))
        except OSError as error:
            raise self._failure(str(error)) from error
        return block

    def _again(self) -> None:
        self._answer.close()
        wanted = "bytes={}-{}".format(self.at, self.size - 1)
        self._answer = self._ask({"Range": wanted, "If-Match": self._etag})
        window_sent = self._answer.headers["Content-Range"] or "all of it"
        if window_sent.partition("/")[0] != wanted.replace("=", " "):
            raise self._failure(
                "{} was requested, but the store sent {}".format(wanted, window_sent)
            )

    def _failure(self, why: str) -> Failure:
        return Failure(
            "the store closed the connection: {} was received only in part: {}".format(
                self._key, why
            ),
            LOST,
        )

    def close(self) -> None:
        self._answer.close()
