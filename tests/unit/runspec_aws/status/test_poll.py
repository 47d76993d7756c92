"""The latest descriptions of jobs are reused as long as they cannot have changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runspec_aws.status.poll import JobPoller
from runspec_aws.timing import Clock, Timing


class Service:
    """Jobs with the *states* that a test gives them; it keeps what it is asked. *now* is the time here."""

    def __init__(self, **states: str) -> None:
        self.states, self.asked, self.now = states, list[str](), 1000.0
        session: Any = SimpleNamespace(
            look=lambda service: self,
            timing=Timing(fresh_s=0.0),
            clock=Clock(monotonic=lambda: self.now),
        )
        self.poller = JobPoller(session)

    def describe_jobs(self, jobs: list[str]) -> Any:
        self.asked += jobs
        found = [{"jobId": name, "status": self.states[name]} for name in jobs]
        return {"jobs": found, "ResponseMetadata": {"HTTPHeaders": {}}}

    def look(self) -> list[str]:
        """Describe all jobs, a second later; give their states."""
        self.now += 1
        return [job["status"] for job in self.poller.describe(self.states).values()]


def test_an_ended_job_is_not_asked_for_again() -> None:
    service = Service(**{"job": "FAILED", "other:3": "SUCCEEDED"})

    service.look()
    service.look()

    assert service.asked == ["job", "other:3"]


def test_a_node_that_failed_alone_is_asked_for_until_its_job_has_ended() -> None:
    service = Service(**{"job": "RUNNING", "job#0": "RUNNING", "job#1": "FAILED"})
    assert service.look() == ["RUNNING", "RUNNING", "FAILED"]
    service.states["job#1"] = "RUNNING"  # the next attempt
    assert service.look() == ["RUNNING", "RUNNING", "RUNNING"]
    service.states["job#1"] = "FAILED"
    service.look()

    service.states = dict.fromkeys(service.states, "SUCCEEDED")

    assert service.look() == ["SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]
    service.asked.clear()
    assert service.look() == ["SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]
    assert service.asked == []
