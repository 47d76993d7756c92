"""Wrappers of a client: one records requests, and one injects a fault into one request."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

from runspec_jobs.provider import (
    Bundle,
    Client,
    Conflict,
    File,
    NoAnswer,
    Progress,
    RemoteError,
    Request,
    Response,
    Status,
    Step,
    SupportsUpload,
)

Send = Callable[[], Response]
Strike = Callable[[Send], Response]  # handles one request, and may send it


class LightsOut(BaseException):
    """Simulates that this process was killed; no code under test may catch it."""


@dataclass
class Recorder:
    """Passes everything to *client*, and records each request that was answered."""

    client: Client
    sent: list[Request] = field(default_factory=list)

    def call(self, request: Request) -> Response:
        return self._send(request, lambda: self.client.call(request))

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Response:
        assert isinstance(self.client, SupportsUpload), "this client cannot upload"
        stage = self.client.stage
        return self._send(request, lambda: stage(request, bundle, progress))

    def find(self, step: Step) -> Response | None:
        return self.client.find(step)

    def settled(self, step: Step) -> bool:
        return self.client.settled(step)

    def state(self, run: str) -> Status:
        return self.client.state(run)

    def cancel(self, run: str) -> None:
        self.client.cancel(run)

    def _send(self, request: Request, send: Send) -> Response:
        answer = send()
        self.sent.append(request)
        return answer


@dataclass
class Flaky(Recorder):
    """A `Recorder` that lets *strike* handle the request with the number *at*, from 0."""

    at: int = -1
    strike: Strike = field(default=lambda send: send())
    begun: int = 0

    def next(self, at: int, strike: Strike) -> None:
        """Count requests from now on, and let *strike* handle the one with the number *at*."""
        self.begun, self.at, self.strike = 0, at, strike

    def _send(self, request: Request, send: Send) -> Response:
        self.begun += 1
        kept = partial(super()._send, request, send)
        return self.strike(kept) if self.begun == self.at + 1 else kept()


def _lose(send: Send) -> Response:
    send()
    raise NoAnswer("the connection was closed")


def _drop_request(_: Send) -> Response:
    raise NoAnswer("the connection was closed")


def _refuse_busy(_: Send) -> Response:
    raise RemoteError("too many requests", transient=True)


def _kill_before(_: Send) -> Response:
    raise LightsOut


def _kill_after(send: Send) -> Response:
    send()
    raise LightsOut


FAULTS: Mapping[str, Strike] = {
    "its reply is lost": _lose,
    "it never arrives": _drop_request,
    "it is refused for now": _refuse_busy,
    "we are killed before it": _kill_before,
    "we are killed after it": _kill_after,
}


@dataclass(frozen=True)
class Changing:
    """A bundle in which the file with the number *at* changes after half of it was read."""

    bundle: Bundle
    at: int

    @property
    def digest(self) -> str:
        return self.bundle.digest

    @property
    def files(self) -> Sequence[File]:
        return self.bundle.files

    def open(self, file: File) -> BinaryIO:
        if file != self.files[self.at]:
            return self.bundle.open(file)
        with self.bundle.open(file) as whole:
            return io.BufferedReader(_Half(whole.read()[: file.bytes // 2]))


class _Half(io.RawIOBase):
    """Reads the first half of a file and then raises Conflict, as `Bundle.open` does."""

    def __init__(self, data: bytes) -> None:
        self.data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.data.readinto(buffer)
        if not count:
            raise Conflict("the file has changed")
        return count
