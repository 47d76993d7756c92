"""Which logs of Batch AI are found and how often they are looked for, by what its API lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from runspec_azure.timing import Clock
from runspec_batchai.logs import Files
from runspec_batchai.timing import DEFAULT, Timing


class Service:
    """What of a client is asked for lists; the names are the same for all jobs."""

    def __init__(self, *names: str) -> None:
        self.names, self.looks = names, list[str]()
        self.looker = SimpleNamespace(jobs=SimpleNamespace(list_output_files=self._list))

    def listed(self, operation: str, call: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        return call()

    def _list(self, *place: Any, cls: Any) -> Iterator[Any]:
        self.looks.append(place[3])
        for name in self.names:
            yield SimpleNamespace(name=name, file_type="file", download_url="u", content_length=1)


def path(job: str) -> dict[str, str]:
    return {"resourceGroupName": "g", "workspaceName": "w", "experimentName": "e", "jobName": job}


def test_the_preparation_of_each_node_is_a_stream_of_its_own() -> None:
    """By the names that the tutorial of the service shows for a job on four nodes."""
    nodes = [f"tvm-676767296_{n}-20180718t174802z-p" for n in (1, 2, 10)]
    kinds = [f"{kind}-job_prep-{node}.txt" for kind in ("stderr", "stdout") for node in nodes]
    files = Files(Service(*sorted(kinds), "execution-tvm-1.log", "stdout.txt"))  # type: ignore[arg-type]

    found = {s.name: s.rank for s in files.streams(0, path("job"), over=True)}

    ranks = dict(zip(kinds, [5000, 5001, 5002, 4000, 4001, 4002], strict=True))
    assert found == {**ranks, "stdout.txt": 0}


def test_a_node_that_prepares_later_takes_no_number_of_another() -> None:
    service = Service("stdout-job_prep-tvm-2.txt")
    files = Files(service, Timing(listed_s=-1.0))  # type: ignore[arg-type]
    files.streams(0, path("job"), over=False)
    service.names = ("stdout-job_prep-tvm-1.txt", *service.names)

    found = {s.name: s.rank for s in files.streams(0, path("job"), over=False)}

    assert found == {"stdout-job_prep-tvm-2.txt": 4000, "stdout-job_prep-tvm-1.txt": 4001}


def test_jobs_that_have_ended_take_no_turns_of_the_one_that_runs() -> None:
    """The last of the 1,000 jobs of a sweep runs on."""
    now_s = [1000.0]
    service = Service("stdout.txt")
    files = Files(service, clock=Clock(lambda: now_s[0]))  # type: ignore[arg-type]
    names = [f"job-{n}" for n in range(1000)]
    for name in names:
        files.streams(0, path(name), over=name != "job-7")
    service.looks.clear()

    now_s[0] += DEFAULT.listed_s + 1.0
    for name in names:
        files.streams(0, path(name), over=name != "job-7")

    assert service.looks == ["job-7"]


def test_jobs_that_run_share_what_may_be_asked() -> None:
    now_s = [1000.0]
    service = Service("stdout.txt")
    files = Files(service, clock=Clock(lambda: now_s[0]))  # type: ignore[arg-type]
    for name in ("a", "b"):
        files.streams(0, path(name), over=False)
    service.looks.clear()

    now_s[0] += DEFAULT.listed_s + 1.0
    files.streams(0, path("a"), over=False)

    assert service.looks == []
