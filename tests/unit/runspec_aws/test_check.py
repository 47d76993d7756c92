"""What AWS Batch cannot do of a spec is told before anything is made, with a way out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runspec_aws import check
from runspec_aws.options import AwsOptions
from tests.support.aws.specs import SECRET, SHARED, STORE, errors, notes, problems, spec

RESERVED = "cr-0123456789abcdef0"
OWN = "providers.aws-batch.instance_types"
H100S = "eu-north-1, eu-west-2, ap-northeast-1, ap-northeast-2"
TYPES = (
    "set gpus: 4 or more, choose another GPU, or set "
    "providers.aws-batch.instance_types: [p4d.24xlarge]"
)
LOGIN = "aws-sm:arn:aws:secretsmanager:eu-west-1:123456789012:secret:registry-a1b2c3"
GROWS = {"reason": "oom", "action": "retry", "memory": {"grow": 2, "most": "64GiB"}}
# What a spec asks for, the profile beside the usual one, and where the error is.
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[Any, ...]]] = {
    "a container of Azure, of which it has no identity": (
        {"mounts": [{"name": "a", "source": "az://lab/data/x", "target": "/a"}]},
        {},
        ("mounts", 0, "source"),
    ),
    "a bucket without an agent that reads it": (
        {"mounts": [{"name": "a", "source": "s3://lab/x", "target": "/a", "anonymous": True}]},
        {"files": "signed"},
        ("mounts", 0, "source"),
    ),
    "more nodes than Batch has": ({"cluster": {"nodes": 1001}}, {}, ("cluster", "nodes")),
    "nodes that end when one is lost": (
        {"cluster": {"nodes": 2}, "retry": {"on": [{"reason": "lost", "action": "stop"}]}},
        {},
        ("retry", "on", 0, "reason"),
    ),
    "memory that grows": (
        {"cluster": {"memory": "1GiB"}, "retry": {"attempts": 2, "on": [GROWS]}},
        {},
        ("retry", "on", 0, "memory"),
    ),
    "tasks of nodes above an array": (
        {"cluster": {"nodes": 2}, "sweep": {"a": "1..5001"}},
        {},
        ("cluster", "nodes"),
    ),
    "a reservation of no type": ({}, {"reservation": RESERVED}, ("provider",)),
    "a reservation of a queue that is there": (
        {},
        {"reservation": RESERVED, "instance_types": ["p4d.24xlarge"], "queue": "q"},
        ("provider",),
    ),
    "spot machines of a reservation": (
        {"cluster": {"capacity": "spot"}},
        {"reservation": RESERVED, "instance_types": ["p4d.24xlarge"]},
        ("cluster", "capacity"),
    ),
    "a Capacity Block without a reservation": ({}, {"capacity_block": True}, ("provider",)),
    "the placement of a Capacity Block": (
        {"cluster": {"placement": "close"}},
        {
            "reservation": RESERVED,
            "instance_types": ["p4d.24xlarge"],
            "capacity_block": True,
        },
        ("cluster", "placement"),
    ),
    "a registry without its secret": ({}, {"registry": "registry.example.org"}, ("provider",)),
    "a secret of no registry": ({}, {"registry_secret": LOGIN}, ("provider",)),
    "a root device of no AMI": ({}, {"root_device": "/dev/sda1"}, ("provider",)),
    "less memory than Batch takes": (
        {"cluster": {"memory": "1MiB"}},
        {},
        ("cluster", "memory"),
    ),
    "adapters in several zones": (
        {"cluster": {"nodes": 2}},
        {"efa": True, "subnets": ["subnet-1", "subnet-2"]},
        ("cluster",),
    ),
    "what Batch would replace": ({"command": ["echo", "Ref::x"]}, {}, ("command", 1)),
    "what Batch would replace in a script": (
        {"run": "echo Ref::x"},
        {},
        ("run",),
    ),
    "a variable of Batch": ({"env": {"AWS_BATCH_JOB_ID": "1"}}, {}, ("env", "AWS_BATCH_JOB_ID")),
    "an image of this machine": (
        {"container": {"image": "localhost/a:1"}},
        {},
        ("container", "image"),
    ),
    "an image of podman": ({"container": {"image": "docker://a"}}, {}, ("container", "image")),
    "an image of enroot": ({"container": {"image": "nvcr.io#a"}}, {}, ("container", "image")),
    "an image in a file": ({"container": {"image": "./a.sif"}}, {}, ("container", "image")),
    "an unknown GPU": (
        {"cluster": {"gpus": 1, "gpu_type": "A1000"}},
        {},
        ("cluster", "gpu_type"),
    ),
    "V100 without an AMI": (
        {"cluster": {"gpus": 1, "gpu_type": "V100"}},
        {},
        ("cluster", "gpu_type"),
    ),
    "more GPUs than a machine has": ({"cluster": {"gpus": 9}}, {}, ("cluster", "gpus")),
    "more cores than a machine has": ({"cluster": {"cpus": 897}}, {}, ("cluster", "cpus")),
    "more memory than a machine has": (
        {"cluster": {"memory": "32TiB"}},
        {},
        ("cluster", "memory"),
    ),
    "all of a machine's memory at its most": (
        {"cluster": {"memory": "32TiB"}},
        {},
        ("cluster", "memory"),
    ),
    "GPUs on Fargate": ({"cluster": {"gpus": 1}}, {"fargate": True}, ("cluster", "gpus")),
    "a gang on Fargate": ({"cluster": {"nodes": 2}}, {"fargate": True}, ("cluster", "nodes")),
    "a node too large for Fargate": (
        {"cluster": {"cpus": 17}},
        {"fargate": True},
        ("cluster", "cpus"),
    ),
    "ulimits on Fargate": ({}, {"fargate": True, "ulimits": {"nofile": 1024}}, ("provider",)),
    "limits on Fargate": ({"ulimits": {"nofile": 9}}, {"fargate": True}, ("ulimits",)),
    "shm on Fargate": ({"container": {"shm": "1GiB"}}, {"fargate": True}, ("container", "shm")),
    "a bound on a queue that is not ours": (
        {"sweep": {"a": "1..3"}, "max_parallel": 2},
        {"queue": "q"},
        ("max_parallel",),
    ),
    "a wait on a queue that is not ours": (
        {},
        {"queue": "q", "max_queue_wait": "1h"},
        ("provider",),
    ),
    "a wait that is too short": ({}, {"max_queue_wait": "599s"}, ("provider",)),
    "a wait that is too long": ({}, {"max_queue_wait": "86401s"}, ("provider",)),
    "no bucket": ({}, {"bucket": None}, ("provider",)),
    "no subnets": ({}, {"subnets": []}, ("provider",)),
    "a store that is written": ({"mounts": [{**STORE, "mode": "rw"}]}, {}, ("mounts", 0, "mode")),
    "a store above its root": (
        {"mounts": [{**STORE, "source": "store:///d"}]},
        {},
        ("mounts", 0, "source"),
    ),
    "a file system nobody named": ({"mounts": [SHARED]}, {}, ("mounts", 0, "source")),
    "a host's folder on Fargate": (
        {"mounts": [SHARED]},
        {"shared": {"work": "host:/fsx"}, "fargate": True},
        ("mounts", 0, "source"),
    ),
    "a secret nobody named": ({"secrets": {"T": "hf"}}, {}, ("secrets", "T")),
    "a secret of another cloud": (
        {"secrets": {"T": "hf"}},
        {"secrets": {"hf": "azure-kv:https://v.vault.azure.net/secrets/hf"}},
        ("secrets", "T"),
    ),
    "a secret of the shell without execution_role": (
        {"secrets": {"T": {"from": "caller"}}},
        {"execution_role": None},
        ("provider",),
    ),
    "a secret without its ARN": (
        {"secrets": {"T": "hf"}},
        {"secrets": {"hf": "aws-sm:hf"}},
        ("secrets", "T"),
    ),
    "a disk beside a launch template": (
        {"cluster": {"disk": "100GiB"}},
        {"launch_template": "lt-1"},
        ("cluster", "disk"),
    ),
    "six security groups on Fargate": (
        {},
        {"fargate": True, "security_groups": ["sg-1"] * 6},
        ("provider",),
    ),
    "machines of two architectures": (
        {},
        {"instance_types": ["c7i.xlarge", "c7g.xlarge"]},
        ("provider",),
    ),
    "families of two architectures": (
        {},
        {"instance_types": ["c7i", "default_arm64"]},
        ("provider",),
    ),
    "a Graviton without an AMI": ({}, {"instance_types": ["a1.xlarge"]}, ("provider",)),
    "a GPU of a Graviton without an AMI": (
        {"cluster": {"gpus": 1}},
        {"instance_types": ["g5g.xlarge"]},
        ("provider",),
    ),
    "a definition that is too large": ({"command": ["echo", "x" * 24000]}, {}, ("command",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_unsupported_spec_is_an_error_at_its_field(name: str) -> None:
    fields, profile, where = REFUSED[name]

    assert where in errors(spec(**fields), **profile)


@pytest.mark.parametrize("name", REFUSED)
def test_every_error_names_a_way_out(name: str) -> None:
    fields, profile, _ = REFUSED[name]

    found = [p for p in problems(spec(**fields), **profile) if p.severity == "error"]

    assert all(problem.hint for problem in found)


GOOD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one node": ({}, {}),
    "a queue that is there": ({}, {"queue": "q", "subnets": [], "instance_role": None}),
    "a gang": ({"cluster": {"nodes": 1000}}, {}),
    "a GPU": ({"cluster": {"gpus": 4, "gpu_type": "a100"}}, {}),
    "a GPU for each task": (
        {"cluster": {"gpus": 1, "gpu_type": "a100"}, "sweep": {"a": "1..8"}},
        {},
    ),
    "V100 with an AMI": ({"cluster": {"gpus": 1, "gpu_type": "V100"}}, {"ami": "ami-1"}),
    "any GPU of a type that the profile names": (
        {"cluster": {"gpus": 1, "gpu_type": "B300"}},
        {"instance_types": ["p6.48xlarge"]},
    ),
    "five security groups on Fargate": ({}, {"fargate": True, "security_groups": ["sg-1"] * 5}),
    "six security groups": ({}, {"security_groups": ["sg-1"] * 6}),
    "Gravitons": ({}, {"instance_types": ["c7g.xlarge", "m7g", "default_arm64"]}),
    "no Gravitons": ({}, {"instance_types": ["c7i.xlarge", "m7i", "optimal", "p6.48xlarge"]}),
    "a Graviton of an AMI": ({}, {"instance_types": ["a1.xlarge"], "ami": "ami-1"}),
    "a GPU of a Graviton of an AMI": (
        {"cluster": {"gpus": 1}},
        {"instance_types": ["g5g.xlarge"], "ami": "ami-1"},
    ),
    "a Graviton of the profile's queue": (
        {"cluster": {"nodes": 2}},
        {"queue": "q", "instance_types": ["a1.xlarge"]},
    ),
    "Fargate": ({"cluster": {"cpus": 16, "memory": "120GiB"}}, {"fargate": True}),
    "a secret": ({"secrets": {"T": "hf"}}, {"secrets": {"hf": SECRET}}),
    "a parameter": ({"secrets": {"T": "hf"}}, {"secrets": {"hf": "aws-ssm:/hf/token"}}),
    "EFS": ({"mounts": [SHARED]}, {"shared": {"work": "efs:fs-12345678:fsap-12345678"}}),
    "the largest sweep": ({"sweep": {"a": "1..10000"}}, {}),
    "a short wait": ({}, {"max_queue_wait": "10m"}),
    "a long wait": ({}, {"max_queue_wait": "24h"}),
    "a timeout below the least of Batch, which the agent keeps": ({"timeout": "6s"}, {}),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_supported_spec_has_no_error(name: str) -> None:
    fields, profile = GOOD[name]

    assert errors(spec(**fields), **profile) == []


@pytest.mark.parametrize(
    "cluster,profile,what,hint",
    [
        (
            {"gpus": 1, "gpu_type": "A100"},
            {},
            "1, but the smallest machine with such GPUs, p4d.24xlarge, has 8",
            TYPES,
        ),
        (
            {"gpus": 8, "gpu_type": "H100"},
            {},
            "no instance type that is large enough is offered in eu-central-1",
            f"choose another GPU, or one of the regions {H100S} and 9 more, or set {OWN}",
        ),
        (
            {"gpus": 9},
            {"region": "us-east-1"},
            "9, but the largest machine has 8",
            "ask for less for each node, or set providers.aws-batch.instance_types",
        ),
        (
            {"gpus": 1, "gpu_type": "K80"},
            {},
            "AWS Batch has no AMI for machines with the GPU K80 any more",
            "set providers: {aws-batch: {ami: ami-...}} with your own AMI, or choose another GPU",
        ),
    ],
)
def test_a_node_that_no_machine_can_hold_is_refused_with_a_hint(
    cluster: dict[str, Any], profile: dict[str, Any], what: str, hint: str
) -> None:
    found = [p for p in problems(spec(cluster=cluster), **profile) if p.severity == "error"]

    assert (what, hint) in [(p.what, p.hint) for p in found]


def test_nodes_on_spot_are_told_to_be_an_array() -> None:
    assert ("cluster", "nodes") in notes(spec(cluster={"nodes": 2, "capacity": "spot"}))
    assert ("cluster", "nodes") not in notes(spec(cluster={"nodes": 2}))


def test_more_attempts_than_aws_batch_makes_get_a_note() -> None:
    for lost in (6, 1000):
        many = spec(cluster={"capacity": "spot"}, retry={"attempts": 6, "spot_attempts": lost})

        assert ("retry", "spot_attempts") in notes(many)


@pytest.mark.parametrize(
    "options",
    [
        {"region": "Frankfurt"},
        {"bucket": "s3://jobs"},
        {"job_role": "runspec-job"},
        {"shared": {"w": "/mnt"}},
        {"prefix": "a//b"},
        {"priority": "10000"},
        {"public_ip": "maybe"},
    ],
)
def test_a_setting_that_cannot_be_is_refused_when_it_is_read(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        AwsOptions.model_validate(options)


@pytest.mark.parametrize("name", sorted({*AwsOptions.model_fields} - {"pools"}))  # the core's
def test_every_setting_is_looked_at(name: str) -> None:
    """One that changes nothing is a promise that is not kept."""
    folder = Path(check.__file__).parent
    text = "".join(path.read_text() for path in folder.rglob("*.py"))

    assert re.search(rf"\boptions\.{name}\b", text)


@pytest.mark.parametrize(
    ("image", "noted"),
    [("localhost:5000/a:1", True), ("127.0.0.1:5000/a:1", True), ("h.io:5000/a:1", False)],
)
def test_a_registry_of_the_machine_itself_is_a_note(image: str, noted: bool) -> None:
    found = [p for p in problems(spec(container={"image": image})) if "a registry on" in p.what]

    assert [(p.path, p.severity) for p in found] == [(("container", "image"), "note")] * noted


@pytest.mark.parametrize(
    ("profile", "noted"),
    [
        ({"security_groups": ["sg-1"] * 5}, False),
        ({"security_groups": ["sg-1"] * 6}, True),
        ({"security_groups": ["sg-1"] * 6, "queue": "q"}, False),
    ],
)
def test_more_security_groups_than_a_network_interface_has_by_default_are_a_note(
    profile: dict[str, Any], noted: bool
) -> None:
    """Their quota can be raised."""
    found = [p for p in problems(spec(), **profile) if "security groups" in p.what]

    assert [p.severity for p in found] == ["note"] * noted


@pytest.mark.parametrize(
    ("types", "noted"),
    [(["c7g.xlarge"], True), (["m7g"], True), (["default_arm64"], True), (["c7i.xlarge"], False)],
)
def test_the_image_of_a_graviton_is_a_note(types: list[str], noted: bool) -> None:
    found = [p for p in problems(spec(), instance_types=types) if "arm64" in p.what]

    assert [(p.path, p.severity) for p in found] == [(("container", "image"), "note")] * noted


@pytest.mark.parametrize(
    ("profile", "noted"),
    [
        ({}, False),
        ({"ami": "ami-1"}, True),
        ({"ami": "ami-1", "root_device": "/dev/sda1"}, False),
        ({"ami": "ami-1", "queue": "q"}, False),
        ({"ami": "ami-1", "fargate": True}, False),
    ],
)
def test_a_disk_of_an_ami_whose_root_device_is_not_named_is_a_note(
    profile: dict[str, Any], noted: bool
) -> None:
    found = [
        p for p in problems(spec(cluster={"disk": "100GiB"}), **profile) if "/dev/xvda" in p.what
    ]

    assert [(p.path, p.severity) for p in found] == [(("cluster", "disk"), "note")] * noted


@pytest.mark.parametrize("name", ["xvda", "/dev/", "/dev/sda 1", "/tmp/a"])
def test_a_root_device_is_a_device(name: str) -> None:
    with pytest.raises(ValueError, match="root_device"):
        problems(spec(), ami="ami-1", root_device=name)


@pytest.mark.parametrize(
    ("fields", "profile"),
    [
        ({"cluster": {"memory": "4MiB"}}, {}),
        ({"cluster": {"nodes": 2}}, {"efa": True, "subnets": ["subnet-1"]}),
        (
            {"cluster": {"nodes": 2, "placement": "close"}},
            {"efa": True, "subnets": ["subnet-1", "subnet-2"]},
        ),
    ],
)
def test_values_that_aws_batch_accepts_have_no_error(
    fields: dict[str, Any], profile: dict[str, Any]
) -> None:
    assert errors(spec(**fields), **profile) == []


def test_adapters_without_a_placement_group_are_a_note() -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html: recommended, and not required"""
    found = problems(spec(cluster={"nodes": 2}), efa=True, subnets=["subnet-1"])

    assert [p.severity for p in found if "recommends a placement group" in p.what] == ["note"]


@pytest.mark.parametrize(("kind", "stack"), [("TPU-v5e", "TPUs"), ("MI300X", "ROCm")])
def test_chips_that_no_machine_has_are_refused_with_the_reason(kind: str, stack: str) -> None:
    wanted = spec(cluster={"gpus": 1, "gpu_type": kind})

    (found,) = [p for p in problems(wanted) if p.path == ("cluster", "gpu_type")]

    assert found.what.startswith(f"'{kind}' needs devices and drivers of {stack}")
    assert found.hint and "T4, Trainium" in found.hint
    assert found.hint.endswith("or a cluster of your own whose nodes have such chips")


def test_a_lazy_mount_is_copied_and_that_is_said() -> None:
    mount = {"name": "a", "source": "store://sets", "target": "/a", "mode": "lazy"}

    (note,) = [p for p in problems(spec(mounts=[mount])) if p.path[0] == "mounts"]

    assert (note.severity, note.path) == ("note", ("mounts", 0, "mode"))
    assert note.what.startswith("each node copies store://sets before the program starts")


def test_fargate_has_no_faster_disk() -> None:
    wanted = spec(cluster={"disk": {"tier": "high"}})

    (found,) = [p for p in problems(wanted, fargate=True) if p.severity == "error"]

    assert (found.path, found.hint) == (
        ("cluster", "disk", "tier"),
        "remove fargate from the profile, or set tier: medium",
    )


def test_a_faster_disk_gets_a_note_about_its_cost() -> None:
    def read(tier: str) -> list[str]:
        wanted = spec(cluster={"disk": {"tier": tier}})
        return [p.what for p in problems(wanted) if p.path[-1] == "tier"]

    assert read("medium") == []
    assert "no total has it" in read("best")[0]


def test_the_name_of_a_machine_for_its_chips_is_answered_with_theirs() -> None:
    (found,) = problems(spec(cluster={"gpus": 1, "gpu_type": "trn1"}))

    assert (found.what, found.hint) == ("'trn1' is no type of chips", "write gpu_type: Trainium")
