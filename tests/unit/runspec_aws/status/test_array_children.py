"""Children of a large array are looked at as seldom as there is news of them, and each of them in the end."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_aws.errors import Part
from runspec_aws.status.poll import Children, JobPoller
from runspec_aws.timing import DEFAULT, Clock, Timing
from runspec_jobs.provider import NoAnswer

COUNT = 1000
NAMES = [f"job:{n}" for n in range(COUNT)]


class Service:
    """An array of COUNT children, all of which wait; it keeps what it is asked. *now* is the time here."""

    def __init__(self) -> None:
        self.states = dict.fromkeys(NAMES, "RUNNABLE")
        self.described = list[list[str]]()
        self.listed = list[str]()
        self.cut = set[str]()  # children whose status is left out of answers
        self.now = 1000.0
        clock = Clock(monotonic=lambda: self.now)
        session: Any = SimpleNamespace(
            look=lambda service: self, timing=Timing(fresh_s=0.0), clock=clock
        )
        self.children = Children(session, JobPoller(session))

    def describe_jobs(self, jobs: list[str]) -> Any:
        self.described.append(jobs)
        if self.cut.intersection(jobs):
            return {
                "jobs": [Part(jobId=name) for name in jobs],
                "ResponseMetadata": {"HTTPHeaders": {}},
            }
        found: list[dict[str, Any]] = [
            {"jobId": name, "status": self.states.get(name, "PENDING")} for name in jobs
        ]
        counts = Counter(self.states.values())
        for job in found:
            if job["jobId"] == "job":
                job["arrayProperties"] = {"statusSummary": dict(counts)}
        return {"jobs": found, "ResponseMetadata": {"HTTPHeaders": {}}}

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=self.list_jobs)

    def list_jobs(self, jobStatus: str, **_: Any) -> Any:  # noqa: N803 - the service's name
        self.listed.append(jobStatus)
        names = [name for name, state in self.states.items() if state == jobStatus]
        return [{"jobSummaryList": [{"jobId": name, "status": jobStatus} for name in names]}]

    def look(self, times: int = 1) -> int:
        """Look that many times, a second apart; give how many calls there were."""
        before = len(self.described)
        for _ in range(times):
            self.now += 1
            self.children.look("job", NAMES)
        return len(self.described) - before


@pytest.fixture
def service() -> Service:
    return Service()


def test_while_nothing_runs_a_look_is_one_call_and_each_child_has_its_turn(
    service: Service,
) -> None:
    assert service.look(20) == 20

    assert {name for names in service.described for name in names} == {"job", *NAMES}
    assert all(len(names) <= 100 for names in service.described)
    assert service.listed == []


def test_running_children_are_listed_when_counts_change_and_then_described(
    service: Service,
) -> None:
    service.look()
    service.states["job:700"] = "RUNNING"

    assert service.look() == 2
    assert service.described[-1] == ["job:700"]
    assert service.look(10) == 20
    assert service.listed == ["RUNNING"]


def test_children_that_began_and_ended_between_two_looks_are_found(service: Service) -> None:
    """At once the first time, and then once a minute."""
    service.look()
    service.states["job:700"] = "SUCCEEDED"
    first = service.look()
    service.states["job:701"] = "FAILED"

    later = service.look(5)

    assert first > 10
    assert later == 5
    service.now += DEFAULT.children_s
    service.states["job:702"] = "SUCCEEDED"
    assert service.look() > 10


def test_why_an_array_waits_is_asked_of_one_child(service: Service) -> None:
    found = service.children.waiting("job", NAMES)

    assert (found or {})["jobId"] == "job:0"
    assert service.described == [["job:0"]]


def test_where_the_first_child_has_ended_another_says_why_the_array_waits(service: Service) -> None:
    service.states["job:0"] = "SUCCEEDED"

    found = service.children.waiting("job", NAMES)

    assert (found or {})["status"] == "RUNNABLE"
    assert (len(service.described), service.listed) == (1, ["RUNNABLE"])


def test_a_child_that_came_without_its_status_is_asked_for_again(service: Service) -> None:
    service.cut.add("job:7")
    with pytest.raises(NoAnswer):
        service.look()
    service.cut.clear()

    assert service.look() == 1
