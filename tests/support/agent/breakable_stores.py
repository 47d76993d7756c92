"""A way to the object store that can be broken: between the job and moto's server or Azurite, on purpose."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import pytest

from runspec_emulators.aws import signature
from runspec_emulators.aws.region import PAIR
from tests.support.fault_proxy import FAULTS, broken, forward
from tests.support.http_server import ReceivedRequest, Reply, Server

NEWLINE, INSTEAD = "%0A", "%E2%90%A4"  # moto's server does not know keys with the first
# Tests of what only an object store does: a folder takes no such keys.
OBJECTS = pytest.mark.parametrize(
    "kind", ["s3", pytest.param("blob", marks=pytest.mark.slow)], indirect=True
)
CLOSE = {"Connection": "close"}


def _signed_anew(
    request: ReceivedRequest, target: str, written: Mapping[str, str]
) -> dict[str, str]:
    """Return the headers for a *target* that is not the one that was signed."""
    lower = {k.lower(): v for k, v in written.items()}
    own = {k: v for k, v in lower.items() if k == "host" or k.startswith("x-amz-")}
    region = lower["authorization"].split("/")[2]
    return lower | signature.sign(request.method, target, own, request.body, PAIR, region, "s3")


class Call(NamedTuple):
    method: str
    path: str  # and the query, but for a signature in it

    @property
    def lists(self) -> bool:
        return "list-type=2" in self.path or "comp=list&" in self.path


class Fault(NamedTuple):
    """What goes wrong with calls that *hits*: *kind* is a status, or one of FAULTS."""

    kind: str
    hits: Callable[[Call], bool]
    left: list[None]


class Hook(Protocol):
    def __call__(self, call: Call, *, before: bool) -> None: ...


class Way(Server):
    """Hands requests on to *there*, writes them down, and breaks those it was told to."""

    def __init__(self, there: str) -> None:
        super().__init__(self._answered)
        self.there = there.partition("//")[2]
        self.hook: Hook | None = None
        self._idle, self._under_way = threading.Condition(), 0
        self.calls: list[Call] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.headers: list[dict[str, str]] = []
        self._faults: list[Fault] = []

    def breaks(self, kind: str, method: str = "", part: str = "", times: int = 1) -> None:
        """Break the next *times* calls of *method* whose path has *part* in it."""

        def hits(call: Call) -> bool:
            return method in ("", call.method) and part in call.path

        self._faults.append(Fault(kind, hits, [None] * times))

    @contextmanager
    def busy(self) -> Iterator[None]:
        with self._idle:
            self._under_way += 1
        try:
            yield
        finally:
            with self._idle:
                self._under_way -= 1
                self._idle.notify_all()

    def is_idle(self) -> None:
        """Wait until nothing is under way: who asked for it may be gone."""
        with self._idle:
            assert self._idle.wait_for(lambda: self._under_way == 0, 120)

    def told(self, call: Call, *, before: bool) -> None:
        """Have the hook know of a request that is about to be handed on, or has been answered."""
        hook = self.hook
        if hook is not None:
            hook(call, before=before)

    def mend(self) -> None:
        self._faults.clear()

    def fault(self, call: Call) -> str:
        for fault in self._faults:
            if fault.left and fault.hits(call):
                fault.left.pop()
                return fault.kind
        return ""

    def count(self, method: str, part: str = "") -> int:
        return sum(1 for call in self.calls if call.method == method and part in call.path)

    def _answered(self, request: ReceivedRequest) -> Reply:
        call = Call(request.method, re.sub(r"[?&]sp=\w+&.*", "", request.target))
        self.calls.append(call)
        self.headers.append(dict(request.headers))
        with self.busy():
            kind = self.fault(call)
            self.told(call, before=True)
            if kind.isdecimal():
                return Reply(int(kind), CLOSE, b"<Error><Code>Told</Code></Error>")
            if kind in FAULTS:
                return broken(FAULTS[kind], lambda: self._handed_on(request))
            if call.path in self.answers:
                status, body = self.answers[call.path]
                return Reply(status, CLOSE, body)
            reply = self._handed_on(request)
            self.told(Call(request.method, request.target), before=False)
            return reply

    def _handed_on(self, request: ReceivedRequest) -> Reply:
        target = request.target
        if "&sig=" not in target:  # signed by Azure, which takes no such key
            written = {k: v.replace(NEWLINE, INSTEAD) for k, v in request.written.items()}
            target = target.replace(NEWLINE, INSTEAD)
            # A copy has a key in its headers, too.
            if (target, written) != (request.target, request.written):
                request = request._replace(written=_signed_anew(request, target, written))
        reply = forward(request, self.there, target)
        body = reply.body.replace(INSTEAD.encode(), NEWLINE.encode())
        return reply._replace(headers={**reply.headers, **CLOSE}, body=body)
