"""Read an object of the store from beginning to end, over as many connections as needed."""

import time
from http.client import HTTPException, HTTPResponse
from typing import Callable, Dict, List

from runspec_agent.base.job_env import LOST, Failure
from runspec_agent.store.base import BLOCK, Stream

TRIES = 6  # without a byte in between

Asks = Callable[[Dict[str, str]], HTTPResponse]
"""A function that requests the object with more headers; it raises Failure if the store refuses."""


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
            block = self._answer.read(size)
            if not block:
                broken.append("{} bytes are missing".format(self.size - self.at))
            return block
        except (OSError, HTTPException) as error:
            broken.append(str(error))
            return b""

    def _again(self) -> None:
        self._answer.close()
        wanted = "bytes={}-{}".format(self.at, self.size - 1)
        self._answer = self._ask({"Range": wanted, "If-Match": self._etag})
        found = self._answer.headers["Content-Range"] or "all of it"
        if found.partition("/")[0] != wanted.replace("=", " "):
            raise self._failure("{} was requested, but the store sent {}".format(wanted, found))

    def _failure(self, why: str) -> Failure:
        return Failure(
            "the store closed the connection: {} was received only in part: {}".format(
                self._key, why
            ),
            LOST,
        )

    def close(self) -> None:
        self._answer.close()
