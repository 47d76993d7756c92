"""Elastic Fabric Adapters: attached to the machine, handed to the container, close to each other."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_aws.resources import known
from tests.support.aws.specs import PROFILE, problems, spec
from tests.unit.runspec_aws.test_plan import container, resources, steps

CLOSE = {"nodes": 2, "placement": "close"}
A100 = {"gpus": 8, "gpu_type": "A100"}


def interfaces(region: str = "us-east-1", **cluster: Any) -> list[dict[str, Any]]:
    made = steps(spec(cluster={**CLOSE, **cluster}), efa=True, region=region)["template"].do.params
    return list(made["LaunchTemplateData"]["NetworkInterfaces"])


def test_each_adapter_is_handed_over_with_the_memory_to_lock() -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/efa.html"""
    found = container(spec(cluster={**CLOSE, **A100}), efa=True)

    devices = found["linuxParameters"]["devices"]
    assert [d["hostPath"] for d in devices] == [f"/dev/infiniband/uverbs{n}" for n in range(4)]
    assert all(d["containerPath"] == d["hostPath"] for d in devices)
    assert all(d["permissions"] == ["READ", "WRITE", "MKNOD"] for d in devices)
    assert found["ulimits"] == [{"name": "memlock", "softLimit": -1, "hardLimit": -1}]


def test_limits_of_the_profile_are_those_of_the_container() -> None:
    """https://docs.aws.amazon.com/batch/latest/APIReference/API_Ulimit.html"""
    found = container(spec(), ulimits={"nofile": "65536"})
    unlimited = container(spec(), ulimits={"memlock": -1, "core": 0})

    assert found["ulimits"] == [{"name": "nofile", "softLimit": 65536, "hardLimit": 65536}]
    assert unlimited["ulimits"] == [
        {"name": name, "softLimit": limit, "hardLimit": limit}
        for name, limit in (("core", 0), ("memlock", -1))
    ]


@pytest.mark.parametrize(
    "cluster,count", [({}, 1), (A100, 4), ({"gpus": 8, "gpu_type": "H100"}, 32)]
)
def test_a_machine_has_an_adapter_on_each_of_its_network_cards(
    cluster: dict[str, Any], count: int
) -> None:
    found = interfaces(**cluster)

    assert [i["NetworkCardIndex"] for i in found] == list(range(count))
    assert [i["DeviceIndex"] for i in found] == [0, *[1] * (count - 1)]
    assert [i["InterfaceType"] for i in found] == ["efa", *["efa-only"] * (count - 1)]


def test_groups_are_named_by_the_adapters_and_not_again_by_the_environment() -> None:
    wanted = spec(cluster=CLOSE)

    assert all(i["Groups"] == PROFILE["security_groups"] for i in interfaces())
    assert "securityGroupIds" not in resources(wanted, efa=True)
    assert resources(wanted)["securityGroupIds"] == PROFILE["security_groups"]


def test_there_are_as_many_devices_as_the_machine_that_is_asked_for_has() -> None:
    """One job would take any machine that fits; those differ in their adapters."""
    wanted = spec(cluster={"gpus": 1, "gpu_type": "H100"})

    profile: dict[str, Any] = {"efa": True, "region": "us-east-1"}
    (machine,) = resources(wanted, **profile)["instanceTypes"]

    there = known(machine)
    assert there is not None
    assert len(container(wanted, **profile)["linuxParameters"]["devices"]) == there.fabric


def test_a_template_of_one_s_own_attaches_its_own_adapters() -> None:
    found = resources(spec(cluster=CLOSE), efa=True, launch_template="lt-1")

    assert found["launchTemplate"]["launchTemplateId"] == "lt-1"
    assert found["securityGroupIds"] == PROFILE["security_groups"]


@pytest.mark.parametrize(
    "cluster,profile,what",
    [
        (CLOSE, {"instance_types": ["c6i.large"]}, "c6i.large has no"),
        ({}, {"fargate": True}, "Fargate has no"),
    ],
)
def test_adapters_that_could_not_work_are_refused(
    cluster: dict[str, Any], profile: dict[str, Any], what: str
) -> None:
    found = [p for p in problems(spec(cluster=cluster), efa=True, **profile) if what in p.what]

    assert [p.severity for p in found] == ["error"]
    assert found[0].hint


def test_close_nodes_with_adapters_are_no_error() -> None:
    assert [p for p in problems(spec(cluster=CLOSE), efa=True) if p.severity == "error"] == []
