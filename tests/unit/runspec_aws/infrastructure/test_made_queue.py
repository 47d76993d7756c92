"""Instance types that the profile names, and that would never run a node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.aws.specs import problems, spec

TYPES = "no type of instance_types holds a node: "


def refused(fields: dict[str, Any], **profile: Any) -> list[tuple[tuple[Any, ...], str]]:
    found = problems(spec(**fields), **profile)
    return [(p.path, p.what) for p in found if p.severity == "error"]


@pytest.mark.parametrize(
    "cluster,types,wanted",
    [
        ({"cpus": 8}, ["t3.micro"], "8 vCPUs and 15,360 MiB"),
        ({"cpus": 2, "memory": "16GiB"}, ["c6i.large", "c5.large"], "2 vCPUs and 16,384 MiB"),
        ({"cpus": 300}, ["c6i"], "300 vCPUs and 576,000 MiB"),
        ({"gpus": 1, "cpus": 1, "memory": "1GiB"}, ["c6i.large"], "1 vCPU, 1,024 MiB and 1 GPU"),
    ],
)
def test_types_that_are_all_too_small_are_refused(
    cluster: dict[str, Any], types: list[str], wanted: str
) -> None:
    assert refused({"cluster": cluster}, instance_types=types) == [(("cluster",), TYPES + wanted)]


@pytest.mark.parametrize(
    "cluster,types",
    [
        ({"cpus": 8}, ["t3.micro", "c6i.4xlarge"]),
        ({"cpus": 8}, ["c6i"]),
        ({"cpus": 8}, ["t3.micro", "optimal"]),  # AWS chooses the families
        ({"cpus": 8}, ["t3.micro", "p9.large"]),  # it is unknown how large that is
        ({"gpus": 1}, ["g5.xlarge"]),
    ],
)
def test_a_type_that_may_hold_a_node_is_enough(cluster: dict[str, Any], types: list[str]) -> None:
    assert refused({"cluster": cluster}, instance_types=types) == []


def test_a_gpu_without_a_driver_needs_an_ami_of_one_s_own() -> None:
    job = {"cluster": {"gpus": 1}}
    what = "AWS Batch has no AMI for machines like p3.2xlarge, with the GPU V100, any more"

    assert refused(job, instance_types=["p3.2xlarge"]) == [(("provider",), what)]
    assert refused(job, instance_types=["p3.2xlarge"], ami="ami-1") == []


@pytest.mark.parametrize("more", [{}, {"nodes": 2}])
def test_a_named_type_must_have_the_gpu_of_the_spec(more: dict[str, Any]) -> None:
    job = {"cluster": {"gpus": 1, "gpu_type": "A10G", **more}}
    what = "'A10G', but no type of instance_types that is large enough has it"

    assert refused(job, instance_types=["g4dn.xlarge"]) == [(("cluster", "gpu_type"), what)]
    assert refused(job, instance_types=["g5.xlarge"]) == []


def test_types_do_not_matter_for_fargate() -> None:
    assert refused({"cluster": {"cpus": 8}}, instance_types=["t3.micro"], fargate=True) == []
