"""An elastic run of two nodes at moto's AWS Batch, one of which has left and may come back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pytest

from runspec_aws.client import AwsClient
from runspec_aws.status import jobs
from runspec_aws.timing import Timing
from runspec_jobs.engine.apply import fill_request
from runspec_jobs.provider import NodeStatus, Released, Request, Seat, Spec
from tests.support.aws.moto_account import MotoAccount, moto_account
from tests.support.aws.specs import spec

RUN = "n-abc123"
TWO = spec(cluster={"nodes": {"min": 1, "max": 2}})
AT_ONCE = Timing(settle_s=0.0, fresh_s=0.0, quiet_s=0.0)


class Pair:
    """An elastic run whose tasks have two nodes each, of which the second of the first was released and has left."""

    def __init__(self, account: MotoAccount, wanted: Spec = TWO) -> None:
        self.account, self.spec = account, wanted
        self.answers = account.submit(wanted, RUN)
        self.array = self.answers["job"]["jobId"]
        self.client = self.new_client()
        self.release([(0, 1)])
        self.end(f"{self.array}:1", 143, "released")

    def new_client(self) -> AwsClient:
        """Return the client of another machine."""
        return AwsClient(self.account.options, AT_ONCE)

    def submits(self, operation: str) -> Sequence[Request]:
        steps = self.account.plan(self.spec, RUN).values()
        return [fill_request(s.do, self.answers) for s in steps if s.do.operation == operation]

    def release(self, away: Collection[Seat], back: Collection[Seat] = ()) -> Released:
        return self.client.release(RUN, away, back, self.submits)

    def come(self) -> str:
        """Have the second node come back, and return the id of its job."""
        assert self.release([], [(0, 1)]) == (set(), set(), "")
        return list(self.own())[-1]

    def own(self) -> Mapping[str, Any]:
        """Return the jobs of nodes that have come back."""
        return {name: job for name, job in self.account.jobs.items() if "_" in job.job_name}

    def end(
        self, name: str, code: int, cause: str, number: int = 1, status: str = "SUCCEEDED"
    ) -> None:
        """Have a job end, and its agent record how."""
        job, node = self.account.jobs[name], 0 if name.endswith(":0") else 1
        job.status = status
        ended = {"container": {"exitCode": 0, "logStreamName": name}, "stoppedAt": 5000}
        job.attempts = [{**ended, "startedAt": 1000}]
        key = f"runspec/runs/{RUN}/ends/0/{number}/{node}-{code}-{cause}"
        self.account.put_object(key, b"{}")
        self.end_array()

    def end_array(self, status: str | None = None) -> None:
        """Have the array be as its children are; moto does not."""
        children = [job for name, job in self.account.jobs.items() if f"{self.array}:" in name]
        if all(child.status in ("SUCCEEDED", "FAILED") for child in children):
            self.account.jobs[self.array].status = status or "SUCCEEDED"

    def claim(self, name: str) -> None:
        """Have the agent of a job claim the first return of the second node."""
        self.account.put_object(f"runspec/runs/{RUN}/returned/1-1.claim", name.encode())

    def finish(self) -> None:
        """Have the job be done, as its first node writes to the store."""
        state = {"format": "runspec.elastic/v1", "phase": "done", "code": 0, "why": ""}
        self.account.put_object(f"runspec/runs/{RUN}/elastic/0/state", json.dumps(state).encode())
        self.end(f"{self.array}:0", 0, "program")

    def nodes(self) -> list[NodeStatus]:
        return list(self.new_client().state(RUN).nodes)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(jobs, "MOST_ENDED", 1)  # moto has no TerminateJobs
    with moto_account(monkeypatch) as account:
        yield Pair(account)
