"""Chips that are no GPUs: their devices, their AMI, and machines that no second node shares."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.aws.specs import problems, spec
from tests.unit.runspec_aws.test_plan import container, resources

AMI: dict[str, Any] = {"ami": "ami-1", "region": "us-east-1"}
ONE = {"gpus": 1, "gpu_type": "Trainium"}


@pytest.mark.parametrize(
    ("chips", "machine", "count"),
    [
        (ONE, "trn1.2xlarge", 1),
        ({"gpus": 16, "gpu_type": "trainium"}, "trn1.32xlarge", 16),
        # A machine has at most twice as many as are asked for; the node gets all of them.
        ({"gpus": 3, "gpu_type": "Inferentia2"}, "inf2.24xlarge", 6),
        ({"gpus": 1, "gpu_type": "Inferentia"}, "inf1.xlarge", 1),
    ],
)
def test_a_node_gets_the_devices_of_all_chips_of_its_machine(
    chips: dict[str, Any], machine: str, count: int
) -> None:
    """https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-inference-task-def.html"""
    made = container(spec(cluster=chips), **AMI)

    paths = [f"/dev/neuron{n}" for n in range(count)]
    assert made["linuxParameters"]["devices"] == [
        {"hostPath": path, "containerPath": path, "permissions": ["READ", "WRITE"]}
        for path in paths
    ]
    assert resources(spec(cluster=chips), **AMI)["instanceTypes"] == [machine]


def test_aws_batch_is_asked_for_no_gpus_where_a_job_has_other_chips() -> None:
    requirements = container(spec(cluster=ONE), **AMI)["resourceRequirements"]

    assert [one["type"] for one in requirements] == ["VCPU", "MEMORY"]


def test_nodes_with_chips_share_no_machine() -> None:
    """AWS Batch does not count the chips: a second node would get the same devices."""
    wanted = spec(cluster={**ONE, "cpus": 1}, sweep={"n": "1..4"})

    (cpus, _) = container(wanted, **AMI)["resourceRequirements"]

    assert cpus == {"type": "VCPU", "value": "5"}  # of the 8 of trn1.2xlarge


def test_chips_need_an_ami_with_their_driver() -> None:
    (refused,) = [
        p for p in problems(spec(cluster=ONE), region="us-east-1") if p.severity == "error"
    ]

    assert refused.what == "AWS Batch has no AMI with the driver of Trainium"
    assert refused.hint and "amazon-linux-2023/neuron/recommended" in refused.hint
    assert [p for p in problems(spec(cluster=ONE), **AMI) if p.severity == "error"] == []


def test_the_ami_for_chips_is_one_for_machines_without_gpus() -> None:
    made = resources(spec(cluster=ONE), **AMI)

    assert made["ec2Configuration"] == [{"imageType": "ECS_AL2023", "imageIdOverride": "ami-1"}]


def test_gaudi_is_given_by_a_variable_that_the_spec_can_replace() -> None:
    """https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-dl1-requirements.html"""
    wanted = {"gpus": 8, "gpu_type": "Gaudi"}
    name = "HABANA_VISIBLE_DEVICES"

    def read(**fields: Any) -> list[str]:
        made = container(spec(cluster=wanted, **fields), **AMI)
        assert "devices" not in made["linuxParameters"]
        return [one["value"] for one in made["environment"] if one["name"] == name]

    assert read() == ["all"]
    assert read(env={name: "0,1"}) == ["0,1"]
