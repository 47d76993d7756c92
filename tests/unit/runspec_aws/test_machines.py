"""The instance types that a job on AWS Batch gets."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_aws.decision import MEMORY_PER_CPU_MIB, decide
from runspec_aws.options import AwsOptions
from tests.support.aws.specs import spec


def chosen(cluster: dict[str, Any], profile: dict[str, Any] = {}, **fields: Any) -> list[str]:  # noqa: B006 - not changed
    options = AwsOptions.model_validate({"region": "us-east-1", **profile})
    return list(decide(spec(cluster=cluster, **fields), options).machines)


def test_one_gpu_gets_no_machine_with_eight() -> None:
    """It got p4d, p5 and p3 as well, and p3 has no driver on the default AMI."""
    assert chosen({"gpus": 1}) == ["g4dn.xlarge", "g4dn.2xlarge"]


def test_tasks_that_share_a_machine_may_have_one_with_more_gpus() -> None:
    one = {"gpus": 1, "gpu_type": "A100"}

    assert chosen(one) == []
    assert chosen(one, sweep={"a": "1..3"}) == []
    assert chosen(one, sweep={"a": "1..4"}) == ["p4d.24xlarge", "p4de.24xlarge"]
    assert chosen(one, sweep={"a": "1..4"}, max_parallel=3) == []


def test_nodes_that_have_machines_of_their_own_do_not_share_one() -> None:
    one = {"gpus": 1, "gpu_type": "A100", "nodes": 8}

    assert chosen(one) == []
    assert chosen({**one, "capacity": "spot"}, launch="mpi") == []


def test_an_ami_of_one_s_own_may_have_other_drivers() -> None:
    old = {"gpus": 8, "memory": "700GiB", "cpus": 90}

    assert "p3dn.24xlarge" not in chosen(old)
    assert "p3.2xlarge" in chosen({"gpus": 1, "gpu_type": "V100"}, {"ami": "ami-1"})


@pytest.mark.parametrize("region,there", [("us-east-1", True), ("eu-central-1", False)])
def test_a_region_has_the_machines_that_it_offers(region: str, there: bool) -> None:
    assert bool(chosen({"gpus": 8, "gpu_type": "H100"}, {"region": region})) is there


def test_the_profile_replaces_the_choice() -> None:
    assert chosen({"gpus": 1}, {"instance_types": ["p9.large"]}) == ["p9.large"]


def test_a_node_requests_its_share_of_the_machine_by_gpus() -> None:
    wanted = spec(cluster={"gpus": 2})

    found = decide(wanted, AwsOptions.model_validate({"region": "us-east-1"})).node

    assert chosen({"gpus": 2}) == ["g4dn.12xlarge"]  # 48 vCPUs, 192 GiB, 4 GPUs
    assert (found.cpus, found.gpus) == ("24", 2)
    assert found.memory_mib == int(192 * 1024 * 0.96) // 2


def test_instance_types_of_the_profile_decide_what_a_node_gets() -> None:
    """It requested the share of the machine that runspec would have chosen, which they need not have."""
    profile = {"region": "us-east-1", "instance_types": ["p4d.24xlarge", "p5.48xlarge"]}

    found = decide(spec(cluster={"gpus": 8}), AwsOptions.model_validate(profile)).node

    assert (found.cpus, found.memory_mib) == ("96", int(1152 * 1024 * 0.96))


def test_a_type_that_the_catalogue_does_not_have_decides_nothing() -> None:
    profile = {"region": "us-east-1", "instance_types": ["p9.large"]}

    found = decide(spec(cluster={"gpus": 2, "cpus": 7}), AwsOptions.model_validate(profile)).node

    assert (found.cpus, found.memory_mib) == ("7", 7 * MEMORY_PER_CPU_MIB)


@pytest.mark.parametrize(
    ("gpu", "machine"),
    [("H200", "p5en.48xlarge"), ("B200", "p6-b200.48xlarge"), ("B300", "p6-b300.48xlarge")],
)
def test_a_newer_gpu_is_found_by_its_name(gpu: str, machine: str) -> None:
    assert chosen({"gpus": 8, "gpu_type": gpu}) == [machine]
    assert chosen({"gpus": 8, "gpu_type": gpu}, {"efa": True}) == [machine]
