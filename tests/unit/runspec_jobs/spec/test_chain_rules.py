"""The jobs of a chain need jobs and outputs that there are, and no job needs itself."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_jobs.provider import Spec
from runspec_jobs.spec.chain_rules import ancestors, conditions, find_cycle, in_order, wrong_chain
from runspec_jobs.spec.needs import Condition

METRIC = {"name": "loss", "goal": "min", "pattern": r"loss=(\S+)"}


def job(name: str, *sources: str, **more: Any) -> Spec:
    mounts = [
        {"name": f"m{number}", "source": source, "target": f"/job/m{number}"}
        for number, source in enumerate(sources)
    ]
    head = {"apiVersion": "runspec/v1", "provider": "local", "command": ["x"], "mounts": mounts}
    outputs = [{"name": "data", "path": "/job/data"}]
    return Spec.model_validate({**head, "name": name, "outputs": outputs, **more})


def problems(*specs: Spec, chain: str = "all") -> list[str]:
    return [problem.what for _, problem in wrong_chain(specs, chain)]


SWEPT = job("search", sweep={"lr": ["1", "2"]}, metric=METRIC)


@pytest.mark.parametrize(
    ("specs", "found"),
    [
        ((job("a"), job("b", "run://a/data")), []),
        ((job("a"), job("a")), ["'a' is the name of another job of the same chain"]),
        ((job("a"), job("b", needs=["c"])), ["there is no job 'c' in this chain"]),
        ((job("a"), job("b", "run://a/dota")), ["the job 'a' has no output 'dota'"]),
        ((job("a"), job("b", "run://a/data?best")), ["the job 'a' has no best task"]),
        ((job("a"), job("b", "run://a/data?task=0")), ["the job 'a' has no sweep"]),
        ((SWEPT, job("b", "run://search/data?task=1", "run://search/data?best")), []),
        (
            (SWEPT, job("b", "run://search/data?task=2")),
            ["the job 'search' has no task 2"],
        ),
        ((job("a", needs=["a"]), job("b")), ["the jobs need each other: a -> a"]),
        (
            (job("a", "run://b/data"), job("b", needs=["a"]), job("c", needs=["b"])),
            ["the jobs need each other: a -> b -> a"],
        ),
        (
            (job("all"), job("b")),
            ["'all' is the name of the chain, too, which has that of its file or folder"],
        ),
        ((job("a"), job("b", "run://earlier-7k2m9p/data")), []),
    ],
)
def test_a_chain_refuses_needs_that_do_not_exist(specs: tuple[Spec, ...], found: list[str]) -> None:
    assert problems(*specs) == found


def test_a_mount_needs_success_unless_needs_says_otherwise() -> None:
    spec = job("c", "run://a/data", "run://b/data", needs={"b": "failed"})

    assert conditions(spec) == {"a": Condition.SUCCEEDED, "b": Condition.FAILED}


def test_jobs_are_ordered_by_what_they_need() -> None:
    jobs = {one.name: one for one in (job("d", needs=["c"]), job("c", "run://a/data"), job("a"))}

    assert in_order(jobs) == ["a", "c", "d"]
    assert ancestors("d", jobs) == {"a", "c"}
    assert find_cycle(jobs) == []
