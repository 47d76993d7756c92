"""Job definitions of AWS Batch become specs: what each key is in a spec or a profile, and what is listed as lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_aws import PROVIDER
from runspec_jobs.provider import OtherFormat, Spec, UsageError
from runspec_jobs.provider.types import ForeignFile, Imported
from tests.support.imports import list_losses, read_only, read_profile

ROLE = "arn:aws:iam::123456789012:role/job"
SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:hf-AbCdEf"
SUBMIT = {"jobName": "one", "jobQueue": "queue", "jobDefinition": "train"}


def convert(definition: Any, submission: Any = None) -> Imported:
    second = ForeignFile("submit.json", json.dumps(submission)) if submission else None
    return PROVIDER.imports(ForeignFile("train.json", json.dumps(definition, indent=1)), second)


def take(container: dict[str, Any], **more: Any) -> Imported:
    properties = {"image": "train:1", "command": ["train"], **container}
    return convert({"jobDefinitionName": "train", "containerProperties": properties, **more})


def submit(**more: Any) -> Imported:
    definition = {
        "jobDefinitionName": "train",
        "parameters": {"lr": "0.1"},
        "containerProperties": {"image": "train:1", "command": ["train", "Ref::lr"], "vcpus": 1},
    }
    return convert(definition, {**SUBMIT, **more})


def find(spec: Spec, path: str) -> Any:
    found: Any = spec
    for part in path.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return found


@pytest.mark.parametrize(
    ("container", "field", "value"),
    [
        ({"vcpus": 4, "memory": 2048}, "cluster.memory", 2048 << 20),
        ({"resourceRequirements": [{"type": "GPU", "value": "8"}]}, "cluster.gpus", 8),
        ({"resourceRequirements": [{"type": "VCPU", "value": "0.25"}]}, "cluster.cpus", 1),
        ({"command": ["python", "${x.y} a"]}, "command", ("python", "$${x.y} a")),
        ({"environment": [{"name": "LR", "value": "3.10"}]}, "env.LR", "3.10"),
        ({"linuxParameters": {"sharedMemorySize": 64}}, "container.shm", 64 << 20),
        ({"ephemeralStorage": {"sizeInGiB": 100}}, "cluster.disk_bytes", 100 << 30),
        ({"secrets": [{"name": "HF_TOKEN", "valueFrom": SECRET}]}, "secrets.HF_TOKEN", "hf-token"),
        ({"ulimits": [{"name": "memlock", "hardLimit": -1}]}, "ulimits.memlock", -1),
        ({"ulimits": [{"name": "stack", "hardLimit": 65536}]}, "ulimits.stack", 65536),
        (
            {"ulimits": [{"name": "core", "hardLimit": 0, "softLimit": 0}]},
            "providers.aws-batch.ulimits",
            {"core": "0"},
        ),
        (
            {"linuxParameters": {"devices": [{"hostPath": "/dev/infiniband/uverbs0"}]}},
            "providers.aws-batch.efa",
            "true",
        ),
        ({"user": "1000"}, "providers.aws-batch.user", "1000"),
        ({"instanceType": "p4d.24xlarge"}, "providers.aws-batch.instance_types", ["p4d.24xlarge"]),
        (
            {"networkConfiguration": {"assignPublicIp": "ENABLED"}},
            "providers.aws-batch.public_ip",
            "true",
        ),
        ({"jobRoleArn": ROLE}, "providers", {}),
        ({}, "providers.aws-batch.files", "signed"),
    ],
)
def test_a_key_of_the_container_becomes_a_field(
    container: dict[str, Any], field: str, value: Any
) -> None:
    imported = take(container)

    assert find(read_only(imported), field) == value
    assert list_losses(imported) == []


@pytest.mark.parametrize(
    ("more", "field", "value"),
    [
        ({"timeout": {"attemptDurationSeconds": 5400}}, "timeout", 5400),
        ({"retryStrategy": {"attempts": 3}}, "retry.attempts", 3),
        ({"tags": {"team": "a"}}, "providers.aws-batch.tags", {"team": "a"}),
        ({"platformCapabilities": ["FARGATE"]}, "providers.aws-batch.fargate", "true"),
    ],
)
def test_a_key_of_the_definition_becomes_a_field(
    more: dict[str, Any], field: str, value: Any
) -> None:
    imported = take({}, **more)

    assert find(read_only(imported), field) == value
    assert list_losses(imported) == []


def test_attempts_that_only_a_lost_machine_costs_are_counted_apart() -> None:
    rules = [
        {"onStatusReason": "Host EC2*", "action": "RETRY"},
        {"onReason": "*", "action": "EXIT"},
    ]

    spec = read_only(take({}, retryStrategy={"attempts": 4, "evaluateOnExit": rules}))

    assert (spec.retry.attempts, spec.retry.spot_attempts) == (1, 4)


def test_rules_by_exit_code_are_rules_of_retry() -> None:
    rules = [
        {"onExitCode": "42", "action": "EXIT"},
        {"onExitCode": "13*", "onReason": "*", "action": "RETRY"},
        {"onReason": "CannotPullContainer*", "action": "RETRY"},
        {"onReason": "Unknown*", "action": "RETRY"},
        {"onReason": "*", "action": "exit"},
    ]

    imported = take({}, retryStrategy={"attempts": 3, "evaluateOnExit": rules})

    retry = read_only(imported).retry
    assert retry.attempts == 3 and retry.on[2].reason == "image"
    assert [(rule.exit_codes, rule.action) for rule in retry.on] == [
        (((42, 42),), "stop"),
        (((13, 13), (130, 139)), "retry"),
        (None, "retry"),
        (None, "stop"),
    ]
    assert len(list_losses(imported)) == 1


def test_volumes_become_shared_file_systems_of_the_profile() -> None:
    efs = {
        "fileSystemId": "fs-0123456789abcdef0",
        "rootDirectory": "/sets",
        "transitEncryption": "ENABLED",
        "authorizationConfig": {"accessPointId": "fsap-0123456789abcdef0", "iam": "ENABLED"},
    }
    imported = take(
        {
            "volumes": [
                {"name": "data", "efsVolumeConfiguration": efs},
                {"name": "Disk", "host": {"sourcePath": "/mnt/disk"}},
                {"name": "scratch", "host": {}},
            ],
            "mountPoints": [
                {"sourceVolume": "data", "containerPath": "/data", "readOnly": True},
                {"sourceVolume": "Disk", "containerPath": "/disk"},
                {"sourceVolume": "scratch", "containerPath": "/scratch"},
            ],
        }
    )

    mounts = [(m.source, m.target, m.read_only) for m in read_only(imported).mounts]
    assert mounts == [("shared://data/sets", "/data", True), ("shared://disk", "/disk", False)]
    assert read_profile(imported, "aws-batch")["shared"] == {
        "data": "efs:fs-0123456789abcdef0:fsap-0123456789abcdef0",
        "disk": "host:/mnt/disk",
    }
    assert list_losses(imported) == []


def test_roles_secrets_and_the_log_group_are_in_the_profile() -> None:
    log = {"logDriver": "awslogs", "options": {"awslogs-group": "/own"}}
    imported = take(
        {
            "jobRoleArn": ROLE,
            "executionRoleArn": ROLE,
            "logConfiguration": log,
            "secrets": [
                {"name": "A", "valueFrom": SECRET},
                {"name": "B", "valueFrom": "/mine/b"},
            ],
        }
    )

    read_only(imported)
    assert read_profile(imported, "aws-batch") == {
        "job_role": ROLE,
        "execution_role": ROLE,
        "log_group": "/own",
        "secrets": {"a": f"aws-sm:{SECRET}", "b": "aws-ssm:/mine/b"},
    }


@pytest.mark.parametrize(
    ("container", "loss"),
    [
        ({"privileged": True}, "train.json:8: containerProperties.privileged: "),
        ({"new": {"a": 1}}, "train.json:8: containerProperties.new: runspec has no such setting"),
        (
            {"linuxParameters": {"devices": [{"hostPath": "/dev/fuse"}]}},
            "train.json:10: containerProperties.linuxParameters.devices[0]",
        ),
        ({"linuxParameters": {"swappiness": 9}}, "train.json:9: containerProperties.linuxParam"),
        (
            {"ulimits": [{"name": "nofile", "softLimit": 1, "hardLimit": 2}]},
            "train.json:9: soft limit of nofile",
        ),
        (
            {"ulimits": [{"name": "nofile", "hardLimit": "many"}]},
            "train.json:9: ulimit nofile: it is not a number",
        ),
        ({"environment": [{"name": "AWS_BATCH_A", "value": "1"}]}, "train.json:9: variable "),
        ({"command": ["a", "Ref::size"]}, "train.json:7: parameter size: it has no value"),
        ({"logConfiguration": {"logDriver": "splunk"}}, "train.json:8: log driver splunk"),
        ({"memory": "lots"}, "train.json:3: MEMORY in containerProperties"),
        ({"runtimePlatform": {"cpuArchitecture": "ARM64"}}, "train.json:9: containerProperties."),
    ],
)
def test_a_lost_setting_is_named_with_its_line(container: dict[str, Any], loss: str) -> None:
    imported = take(container)

    read_only(imported)
    losses = list_losses(imported)
    assert len(losses) == 1 and losses[0].startswith(loss)


def test_the_value_of_a_secret_is_in_no_file_and_no_note() -> None:
    token = "hf_" + 34 * "Q"
    imported = take(
        {
            "command": ["train", f"--hub={token}", "--password", "correct-horse"],
            "environment": [
                {"name": "DB_PASSWORD", "value": "hunter-seven"},
                {"name": "URL", "value": f"https://me:{token}@example.org"},
            ],
        }
    )

    spec = read_only(imported)
    assert set(spec.secrets) == {"DB_PASSWORD", "URL"}
    assert spec.command == ("train", "--hub=REMOVED", "--password", "correct-horse")
    assert "hunter-seven" not in str(imported) and token not in str(imported)


def test_a_request_overrides_its_definition() -> None:
    imported = submit(
        arrayProperties={"size": 5},
        parameters={"lr": "0.2"},
        containerOverrides={"vcpus": 8, "environment": [{"name": "A", "value": "b"}]},
        timeout={"attemptDurationSeconds": 60},
        shareIdentifier="mine",
        schedulingPriorityOverride=7,
    )

    spec = read_only(imported)
    assert (spec.name, spec.command, spec.cluster.cpus) == ("one", ("train", "0.2"), 8)
    assert spec.params == {"lr": "0.2"}
    assert (spec.sweep["index"], spec.timeout) == (tuple("01234"), 60)
    settings = {"queue": "queue", "files": "signed", "share": "mine", "priority": "7"}
    assert spec.providers["aws-batch"] == settings
    assert list_losses(imported) == []


def test_a_lost_setting_is_named_with_its_file() -> None:
    (loss,) = list_losses(submit(consumableResourcePropertiesOverride={"x": 1}))
    (old,) = list_losses(take({"fargatePlatformConfiguration": {"platformVersion": "1.3.0"}}))

    key = "consumableResourcePropertiesOverride"
    assert loss == f"submit.json:1: {key}: runspec has no such setting"
    assert old.startswith("train.json:") and old.endswith(
        "platformVersion: runspec uses the latest"
    )


NODES = {"image": "mpi:1", "vcpus": 2, "memory": 100}


def test_a_multi_node_definition_becomes_nodes() -> None:
    group = {"targetNodes": "0:", "container": {**NODES, "command": ["run"]}}
    properties = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": [group]}
    definition = {"jobDefinitionName": "train", "nodeProperties": properties}

    imported = convert(definition, {**SUBMIT, "nodeOverrides": {"numNodes": 3}})

    spec = read_only(imported)
    assert (spec.cluster.nodes.max, spec.cluster.cpus, spec.command) == (3, 2, ("run",))
    assert list_losses(imported) == []


def test_ranges_of_nodes_with_commands_of_their_own_become_one_script() -> None:
    groups = [
        {"targetNodes": "0", "container": {**NODES, "command": ["lead", "a b"]}},
        {"targetNodes": "1:", "container": {**NODES, "command": ["work"]}},
    ]
    imported = convert({"nodeProperties": {"numNodes": 3, "nodeRangeProperties": groups}})

    run = read_only(imported).run or ""
    assert "-le 0 ]; then exec lead 'a b'; fi" in run and "-le 2 ]; then exec work; fi" in run
    assert list_losses(imported) == []


def test_of_a_description_the_newest_revision_of_each_name_is_imported() -> None:
    described = [
        {
            "jobDefinitionName": "train",
            "revision": n,
            "status": "ACTIVE",
            "containerProperties": {"image": f"train:{n}", "command": ["a"]},
        }
        for n in (2, 10, 9)
    ]

    imported = convert({"jobDefinitions": described})

    assert read_only(imported).container.image == "train:10"
    assert len(list_losses(imported)) == 2


def test_a_task_of_ecs_has_one_container() -> None:
    containers = [
        {"name": "main", "image": "a:1", "command": ["a"], "essential": True},
        {"name": "side", "image": "b:1"},
    ]
    tasks = [{"containers": containers, "taskRoleArn": ROLE}]
    imported = convert({"ecsProperties": {"taskProperties": tasks}})

    assert read_only(imported).container.image == "a:1"
    assert read_profile(imported, "aws-batch")["job_role"] == ROLE
    assert [loss.split(": ")[1] for loss in list_losses(imported)] == ["container side"]


@pytest.mark.parametrize("text", ["", "#!/bin/sh\n", "[1]", "a: 1\n---\nb: 2\n", "kind: Job\n"])
def test_another_file_is_of_another_format(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        PROVIDER.imports(ForeignFile("a.json", text), None)

    assert isinstance(raised.value, OtherFormat) or text in ("", "[1]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"jobDefinitionName": "a",', "a.json:1:27: "),
        (json.dumps(SUBMIT), "which is in another file"),
        ('{"jobDefinitionName": "a"}', "none of containerProperties"),
        ('{"jobDefinitions": []}', "describes no job definition"),
        ("a: &a [*a]\n", "refers to the value that contains it"),
        ("{" * 70, "more than 64 nested"),
        ("a: b\n" * 3, "duplicate key"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        PROVIDER.imports(ForeignFile("a.json", text), None)

    assert message in str(raised.value) and not isinstance(raised.value, OtherFormat)
