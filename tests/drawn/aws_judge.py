"""Has a client go through a case while one operation answers what was drawn, and says what is wrong with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.awsrequest import AWSResponse, HeadersDict
from botocore.config import Config
from hypothesis import strategies as st
from urllib3 import HTTPResponse

from runspec_aws import client, session
from runspec_aws.client import AwsClient
from runspec_aws.doctor import findings
from runspec_aws.options import AwsOptions
from runspec_aws.status import jobs, poll
from runspec_aws.store import multipart, objects
from runspec_aws.timing import Clock
from runspec_emulators.aws import models
from runspec_jobs.provider import Finding, RunspecError
from runspec_jobs.provider.streams import tar_stream
from tests.drawn.aws_account import Account, Drawn, World, drawn, opened
from tests.drawn.aws_cases import OPTIONS, Case, Place, bad, right_error
from tests.drawn.aws_truths import CHILDREN, TRUTHS
from tests.support.http_server import ReceivedRequest

# Once each: the SDK's own retries, and its waits between them, are no part of what is tried here.
ONCE = Config(
    request_checksum_calculation="when_required",
    retries={"mode": "standard", "total_max_attempts": 1},
    read_timeout=60,
)
SERVICES = (
    "batch",
    "logs",
    "s3",
    "ec2",
    "iam",
    "sts",
    "ecr",
    "service-quotas",
    "fsx",
    "secretsmanager",
)
PART_BYTES = 4096


class Example(NamedTuple):
    """What is true, and how one operation answers."""

    world: World
    drawn: Drawn


def examples(case: Case) -> st.SearchStrategy[Example]:
    return st.builds(Example, case.worlds, drawn(service_of(case.operation), case.operation))


def service_of(operation: str) -> str:
    return next(name for name in SERVICES if operation in models.service(name).operation_names)


class Quick:
    """Time that passes when somebody sleeps, and at once."""

    def __init__(self) -> None:
        self.slept_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def monotonic(self) -> float:
        return time.monotonic() + self.slept_s

    def time(self) -> float:
        return time.time() + self.slept_s


class Region:
    """An account with clients of it, which share one session, as its making costs more than an example."""

    def __init__(self, account: Account, own: session.Session, folder: Path) -> None:
        self.account, self.session, self.folder = account, own, folder

    def judge(self, case: Case, example: Example) -> None:
        """Raise AssertionError where the client is wrong about what *example* tells it."""
        self.session.valid.clear()
        service = service_of(case.operation)
        self.account.begin(example.world, service, case.operation, example.drawn)
        own = AwsClient(AwsOptions.model_validate(OPTIONS), clock=self.session.clock)
        place = Place(own, self.account, self.folder)
        found: Any
        try:
            found = case.drive(place)
        except RunspecError as exc:
            found = exc
        assert self.account.server.wrong == []
        problem = self._problem(case, example, found)
        assert problem is None, f"{problem}: {found!r}"

    def _problem(self, case: Case, example: Example, found: Any) -> str | None:
        account, how = self.account, example.drawn
        if isinstance(found, RunspecError) and not found.message.strip():
            return "a failure without words"
        if how.kind == "whole" or not account.met:
            return None if self._good(case, found) else "a whole answer is not understood"
        if how.kind == "refused" and how.refusal.code in case.absent:
            return None if case.gone(account, found) else "what is not there is not seen to be so"
        if isinstance(found, RunspecError):
            said = how.kind != "refused" or right_error(how.refusal.means, found)
            return None if said else f"{how.refusal.code} is told otherwise"
        if case.lenient or account.emptied or self._told(case, found):
            return None
        if how.kind in ("refused", "odd"):
            around = how.refusal.code in case.around and self._good(case, found)
            return None if around else "an error is taken for an answer"
        fair = how.kind == "lacking" and case.fair(found)
        well = fair or self._good(case, found)
        return None if well else "part of an answer is taken for the whole"

    def _told(self, case: Case, found: Any) -> bool:
        """Return whether `doctor` tells what is wrong, or what it could not check, and what to do about it."""
        if not isinstance(found, list):
            return False
        is_unknown = any(isinstance(one, Finding) and one.unknown and one.hint for one in found)
        return is_unknown or (not self._good(case, found) and bad(found))

    def _good(self, case: Case, found: Any) -> bool:
        return not isinstance(found, RunspecError) and case.good(self.account, found)


@contextmanager
def region(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[Region]:
    """Give a region whose clock is quick, with nothing of this machine's own settings."""
    clock = Quick()
    patch.setattr(session, "PATIENT", ONCE)
    patch.setattr(session, "UPLOADING", ONCE)
    patch.setattr(findings, "QUOTAS", {"on-demand": "L-1216C47A"})
    for module in (poll, poll, jobs):  # so that a large array has more than two children
        patch.setattr(module, "AT_ONCE", CHILDREN - 2)
    patch.setattr(jobs, "SHOWN", CHILDREN - 2)
    patch.setattr(objects, "PART_BYTES", PART_BYTES)
    patch.setattr(multipart, "LEAST_BYTES", PART_BYTES)
    patch.setattr(tar_stream, "BLOCK_BYTES", PART_BYTES)
    patch.setattr(tar_stream, "READ_BYTES", PART_BYTES)
    patch.setattr(
        multipart, "AT_ONCE", 1
    )  # so that the same part meets the drawn answer every time
    with opened(TRUTHS) as account:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_ENDPOINT_URL": account.server.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        times = Clock(clock.monotonic, clock.time, clock.sleep)
        own = session.Session(AwsOptions.model_validate(OPTIONS), clock=times)
        for module in (client, findings):
            patch.setattr(module, "Session", lambda *how: own)
        own._session.events.register("before-send", at_once(account))
        for service in SERVICES:  # while the endpoint is in the environment
            own.make(service), own.look(service)
        yield Region(account, own, folder)


def at_once(account: Account) -> Callable[..., AWSResponse | None]:
    """Return what answers, without a connection, every operation but the one whose answers are drawn.

    Most calls of an example are such, and each would take longer by HTTP than all else that is done for it.
    """

    def answer(request: Any, event_name: str, **_: Any) -> AWSResponse | None:
        if event_name.rpartition(".")[2] == account.wanted[1]:
            return None
        reply = account.answered(asked(request))
        raw = HTTPResponse(BytesIO(reply.body), reply.headers, reply.status, preload_content=False)
        return AWSResponse(request.url, reply.status, HeadersDict(reply.headers), raw)

    return answer


def asked(request: Any) -> ReceivedRequest:
    """Return a prepared request of botocore's as the server would have read it."""
    split = urlsplit(request.url)
    body = request.body or b""
    body = body.read() if hasattr(body, "read") else body
    said = {
        k.lower(): v.decode() if isinstance(v, bytes) else v for k, v in request.headers.items()
    }
    query = dict(parse_qsl(split.query, keep_blank_values=True))
    plain = body.encode() if isinstance(body, str) else bytes(body)
    return ReceivedRequest(request.method, split.path, query, said, plain)
