"""What differs between two plans is named by the words of the spec."""

from __future__ import annotations

from typing import Any

from runspec_jobs.plan.spec_diff import find_differences
from runspec_jobs.provider import Facts, Options, Spec
from runspec_jobs.testing import documents

JOB = {"apiVersion": "runspec/v1", "name": "job", "provider": "local", "command": ["true"]}


def make_inputs(**fields: Any) -> tuple[Spec, Facts]:
    spec, problems = documents.parse_spec({**JOB, **fields})
    assert spec is not None, problems
    return spec, Facts(Options())


def test_a_field_that_differs_has_the_name_that_the_spec_gives_it() -> None:
    before = make_inputs(cluster={"gpus": 1, "gpu_type": "T4"})
    after = make_inputs(cluster={"gpus": 1, "gpu_type": "V100", "capacity": "spot"})

    changes = find_differences(before, after)

    assert [(one.path, one.before, one.after) for one in changes] == [
        ("cluster.capacity", "on-demand", "spot"),
        ("cluster.gpu_type", "T4", "V100"),
    ]
