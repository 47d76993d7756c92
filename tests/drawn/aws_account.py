"""An account of AWS with one run in it: what is true of it, and a server that says so, or what was drawn instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs

from hypothesis import strategies as st

from runspec_emulators.aws import models
from tests.drawn import aws_models
from tests.drawn.aws_errors import Refusal, refusals
from tests.drawn.drawing import odd
from tests.drawn.schema import LACKS, Lack, Lacking, Schema, Ways, anchored, lacking, values
from tests.support.http_server import ReceivedRequest, Reply, Server

REGION, BUCKET, PREFIX = "eu-central-1", "jobs", "p"
RUN, JOB, QUEUE = "job-20261123-abcdef", "7f1c0d3e-0000-4000-8000-000000000001", "q"
ARN = "arn:aws:batch:eu-central-1:123456789012"
EARLY = datetime(2026, 11, 1, tzinfo=UTC)
STATUSES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")

NO_REFUSAL, NO_REPLY = Refusal("", 400, "other"), Reply(500)

Params = Mapping[str, Any]
Page = tuple[str, ...]


@dataclass(frozen=True)
class World:
    """What is true beyond the answers: a client has to find this, whatever else the answers hold."""

    status: str = "RUNNING"
    shape: str = "single"
    state: str = "ENABLED"  # of the queue and the environment
    health: str = "VALID"
    there: bool = True  # what is looked for
    pages: tuple[Page, ...] = (("a", "b"),)  # of a list, as the service cuts it
    files: Mapping[str, bytes] = field(default_factory=dict)  # beside the run's record
    phases: tuple[Page, ...] = ((),)  # statuses of the children of a large array, as time goes on
    phase: int = 0
    parts: tuple[Page, ...] = ((),)  # of an unfinished upload, as pages of what `files` has


class Call(NamedTuple):
    """A request, as the model of its operation reads it."""

    service: str
    operation: str
    params: Params


@dataclass(frozen=True)
class Drawn:
    """How one answer of an operation is to be: which one, what it holds beside the truth, and what is wrong with it."""

    kind: Literal["whole", "lacking", "cut", "refused", "odd"]
    at: int = 0
    value: Any = None
    lack: Lack = (0, "out")
    cut_at: float = 0.0
    seen: bool = True
    refusal: Refusal = NO_REFUSAL
    reply: Reply = NO_REPLY

    def said(self, service: str, truth: Params) -> Lacking:
        """Return what the reply says beside *truth*. The bytes of an object are what they are."""
        value = anchored(self.value, truth)
        if self.kind != "lacking":
            return Lacking(value, (), None, "")
        data = {key: value.pop(key) for key in ("Body",) if key in value}
        found = lacking(value, self.lack, ways(service))
        return found._replace(value={**found.value, **data})

    def leaves_out(self, service: str, truth: Params) -> bool:
        """Return whether the reply says that a list is empty, which is a complete answer.

        The XML of S3 has no element for an empty list.
        """
        found = self.said(service, truth)
        token = found.path[-1:] in (("nextToken",), ("NextToken",))  # nor is a next page missed
        return token or (isinstance(found.was, list) and (found.how == "empty" or service == "s3"))

    def answer(self, service: str, operation: str, truth: Params) -> Reply:
        """Return the reply that says *truth* in this way."""
        if self.kind == "refused":
            return aws_models.refusal(service, self.refusal.code, self.refusal.status)
        if self.kind == "odd":
            return self.reply
        whole = aws_models.reply(service, operation, self.said(service, truth).value)
        if self.kind != "cut" or not whole.body:
            return whole
        end = min(len(whole.body) - 1, int(self.cut_at * len(whole.body)))
        return whole._replace(sent=end) if self.seen else whole._replace(body=whole.body[:end])


def ways(service: str) -> Ways:
    return Ways(nulls=aws_models.protocol(service) in ("json", "rest-json"))


@cache
def drawn(service: str, operation: str) -> st.SearchStrategy[Drawn]:
    """Return a strategy for the answers of an operation: half of them whole, the others wrong in some way."""
    value = values(aws_models.output(service, operation), ways(service))
    at = st.sampled_from((0, 0, 0, 1))
    whole = st.builds(Drawn, st.just("whole"), value=value)
    wrong = [
        st.builds(Drawn, st.just("lacking"), at, value, LACKS),
        st.builds(
            Drawn,
            st.just("cut"),
            at,
            value,
            cut_at=st.floats(0, 1),
            seen=st.just(True) if operation == "GetObject" else st.booleans(),
        ),
        st.builds(
            Drawn,
            st.just("refused"),
            at,
            refusal=st.sampled_from(refusals(service, operation)),
        ),
        st.builds(Drawn, st.just("odd"), at, reply=odd(aws_models.content_type(service))),
    ]
    return st.one_of(whole, whole, whole, *wrong)


class Account:
    """The server and what it was asked; `world` and `drawn` are of the example at hand."""

    def __init__(
        self, server: Server, truths: Mapping[str, Callable[[Account, Params], Any]]
    ) -> None:
        self.server, self.truths = server, truths
        server.answering = self.answered
        self.begin(World(), "", "", Drawn("whole", value={}))

    def begin(self, world: World, service: str, operation: str, drawn: Drawn) -> None:
        """Forget what was before; from now on *operation* answers what is *drawn*."""
        self.world, self.drawn = world, drawn
        self.wanted = (service, operation)
        self.calls: list[Call] = []
        self.emptied = False
        self.met = False  # whether the answer that is wrong was asked for
        self.done: set[str] = set()  # operations that the service carried out
        self.server.asked.clear()
        self.server.wrong.clear()

    def called(self, operation: str) -> list[Call]:
        return [call for call in self.calls if call.operation == operation]

    def answered(self, asked: ReceivedRequest) -> Reply:
        """Return the reply to a request, and remember the call."""
        call = read(asked)
        number = len(self.called(call.operation))
        self.calls.append(call)
        truth = self.truths[call.operation](self, call.params)
        if isinstance(truth, Reply):  # what the truth itself is refused with
            plain = truth
        else:
            base = least(call.service, call.operation)
            plain = aws_models.reply(call.service, call.operation, anchored(base, truth))
        found = plain
        if (call.service, call.operation) == self.wanted:
            meant = self.drawn.kind == "whole" or number == self.drawn.at
            self.met = self.met or meant
            if meant and (self.drawn.kind in ("refused", "odd") or not isinstance(truth, Reply)):
                found = self.drawn.answer(*self.wanted, truth)
                if self.drawn.kind == "lacking":
                    self.emptied = self.drawn.leaves_out(call.service, truth)
        if 0 < found.status < 300:
            self.done.add(call.operation)
        return found


@cache
def least(service: str, operation: str) -> Any:
    """Return the smallest value that the model of an answer allows."""
    return _least(aws_models.output(service, operation))


def _least(schema: Schema) -> Any:
    if schema.kind == "object":
        return {name: _least(schema.members[name]) for name in schema.required}
    plain = {"list": [], "map": {}, "boolean": False, "time": EARLY, "bytes": b""}
    if schema.kind in ("integer", "number"):
        return int(max(0, schema.least or 0))
    return schema.enum[0] if schema.enum else plain.get(schema.kind, "x")


def read(asked: ReceivedRequest) -> Call:
    """Return the call that a request is; the signature names the service."""
    scope = asked.headers.get("authorization", "").partition("Credential=")[2].split("/")
    service = {"elasticfilesystem": "efs", "servicequotas": "service-quotas"}.get(
        scope[3], scope[3]
    )
    if service == "batch":
        found = models.read(asked.method, asked.path, {}, asked.body)
        return Call("batch", found.operation, found.params)
    if target := asked.headers.get("x-amz-target"):
        return Call(service, target.partition(".")[2], json.loads(asked.body))
    if service == "s3":
        source, part = (asked.headers.get(f"x-amz-copy-source{end}") for end in ("", "-range"))
        conditions = sorted({"if-none-match", "if-match"} & asked.headers.keys())
        more: dict[str, Any] = {"path": asked.path, "body": asked.body, "source": source}
        more |= {"range": part, "conditions": conditions}
        return Call("s3", _on_s3(asked), {**asked.query, **more})
    form = {key: value[0] for key, value in parse_qs(asked.body.decode()).items()}
    return Call(service, form["Action"], form)


S3 = (
    ("GET", "list-type", "ListObjectsV2"),
    ("GET", "versions", "ListObjectVersions"),
    ("GET", "uploads", "ListMultipartUploads"),
    ("GET", "uploadId", "ListParts"),
    ("GET", "", "GetObject"),
    ("PUT", "partNumber", "UploadPart"),
    ("PUT", "", "PutObject"),
    ("DELETE", "uploadId", "AbortMultipartUpload"),
    ("DELETE", "", "DeleteObject"),
    ("POST", "delete", "DeleteObjects"),
    ("POST", "uploads", "CreateMultipartUpload"),
    ("POST", "uploadId", "CompleteMultipartUpload"),
)


def _on_s3(asked: ReceivedRequest) -> str:
    if asked.method == "HEAD":
        return "HeadObject" if asked.path.count("/") > 1 else "HeadBucket"
    if "x-amz-copy-source" in asked.headers:
        return "UploadPartCopy" if "partNumber" in asked.query else "CopyObject"
    return next(o for m, key, o in S3 if m == asked.method and (not key or key in asked.query))


@contextmanager
def opened(truths: Mapping[str, Callable[[Account, Params], Any]]) -> Iterator[Account]:
    with Server() as server:
        yield Account(server, truths)
