"""From a spec to the requests of AWS Batch: what each field becomes, word for word."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from runspec_agent.base import task_identity
from runspec_agent.retry import failure_count
from runspec_aws import job as definition, plan, reasons
from runspec_aws.decision import JobKind, decide, decide_shape
from runspec_aws.infrastructure import compute_environments
from runspec_aws.options import AwsOptions
from runspec_aws.resources import SIZES, known, usable_mib
from runspec_aws.status import nodes as job_nodes
from runspec_jobs.provider import Facts, Source, Spec, Step
from runspec_jobs.provider.commands import tasks
from tests.support.aws.specs import PROFILE, SECRET, SHARED, spec

RUN = "n-abc123"


def facts(wanted: Spec, **profile: Any) -> Facts:
    options = AwsOptions.model_validate({**PROFILE, **profile})
    return Facts(options, {m.name: Source("sha256:" + "5" * 64, 1, 1) for m in wanted.mounts})


def steps(wanted: Spec, **profile: Any) -> dict[str, Step]:
    return {step.id: step for step in plan.steps(wanted, RUN, facts(wanted, **profile))}


def container(wanted: Spec, **profile: Any) -> dict[str, Any]:
    params = steps(wanted, **profile)["definition"].do.params
    if "containerProperties" in params:
        return dict(params["containerProperties"])
    return dict(params["nodeProperties"]["nodeRangeProperties"][0]["container"])


def resources(wanted: Spec, kind: str = "ec2", **profile: Any) -> dict[str, Any]:
    return dict(steps(wanted, **profile)[f"environment-{kind}"].do.params["computeResources"])


def job(wanted: Spec, **profile: Any) -> dict[str, Any]:
    return dict(steps(wanted, **profile)["job"].do.params)


# Where it runs


def test_spot_comes_first_and_gives_way_to_on_demand() -> None:
    wanted = spec(cluster={"capacity": "spot-then-on-demand"})

    order = steps(wanted)["queue"].do.params["computeEnvironmentOrder"]

    assert [(o["order"], o["computeEnvironment"]["$ref"]) for o in order] == [
        (1, "environment-spot.computeEnvironmentArn"),
        (2, "environment-ec2.computeEnvironmentArn"),
    ]
    assert resources(wanted, "spot")["allocationStrategy"] == "SPOT_PRICE_CAPACITY_OPTIMIZED"


def test_nodes_that_come_and_go_are_an_array_also_on_demand() -> None:
    wanted = spec(cluster={"nodes": {"min": 1, "max": 4}})

    assert job(wanted)["arrayProperties"] == {"size": 4}
    record = json.loads(steps(wanted)["record"].do.params["Body"])
    assert (record["shape"], record["nodes"]) == ("array", 4)
    assert record["elastic"] == {"min": 1, "max": 4}


def test_a_queue_of_the_profile_is_used_as_it_is() -> None:
    made = steps(spec(), queue="mine")

    assert [s for s in made if s.startswith(("queue", "environment"))] == []
    assert made["job"].do.params["jobQueue"] == "mine"


def test_equal_needs_share_an_environment_and_others_do_not() -> None:
    one, same = steps(spec(name="one")), steps(spec(name="other", command=["true"]))
    larger = steps(spec(cluster={"cpus": 8}))

    assert one["queue"] == same["queue"]
    assert one["environment-ec2"] == same["environment-ec2"]
    assert one["queue"] != larger["queue"]


def test_compute_environments_have_no_minimum_of_vcpus() -> None:
    assert resources(spec())["minvCpus"] == 0


def test_a_bound_on_tasks_is_a_bound_on_vcpus() -> None:
    wanted = spec(cluster={"cpus": 2}, sweep={"a": "1..9"}, max_parallel=3)

    assert resources(wanted)["maxvCpus"] == 6


def test_a_gang_has_machines_of_one_type_and_tasks_have_many() -> None:
    assert len(resources(spec(cluster={"nodes": 2}))["instanceTypes"]) == 1
    assert len(resources(spec())["instanceTypes"]) > 3


def test_close_nodes_have_a_placement_group() -> None:
    wanted = spec(cluster={"nodes": 2, "placement": "close"})

    name = steps(wanted)["placement"].do.params["GroupName"]

    assert resources(wanted)["placementGroup"] == name


def test_a_disk_is_a_launch_template() -> None:
    wanted = spec(cluster={"disk": "100GiB"})

    made = steps(wanted)["template"].do.params

    (device,) = made["LaunchTemplateData"]["BlockDeviceMappings"]
    assert device["Ebs"]["VolumeSize"] == 100
    assert resources(wanted)["launchTemplate"]["launchTemplateName"] == made["LaunchTemplateName"]


@pytest.mark.parametrize(
    ("tier", "size", "volume"),
    [
        ("medium", 100, {"VolumeType": "gp3", "VolumeSize": 100}),
        ("high", 1, {"VolumeType": "gp3", "VolumeSize": 32, "Iops": 16000, "Throughput": 1000}),
        ("best", 100, {"VolumeType": "io2", "VolumeSize": 100, "Iops": 32000}),
    ],
)
def test_the_tier_of_a_disk_is_the_kind_of_its_volume(
    tier: str, size: int, volume: dict[str, Any]
) -> None:
    """https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html: at most 500 IOPS for a GiB of gp3"""
    wanted = spec(cluster={"disk": {"size": f"{size}GiB", "tier": tier}})

    made = steps(wanted)["template"].do.params["LaunchTemplateData"]

    assert made["BlockDeviceMappings"][0]["Ebs"] == {**volume, "DeleteOnTermination": True}


def test_a_tier_alone_asks_for_the_least_disk_with_it() -> None:
    made = steps(spec(cluster={"disk": {"tier": "low"}}))["template"].do.params

    (device,) = made["LaunchTemplateData"]["BlockDeviceMappings"]
    assert device["Ebs"]["VolumeSize"] == 30


@pytest.mark.parametrize(
    ("image", "registry", "used"),
    [
        ("registry.example.org/team/train:1", "registry.example.org", True),
        ("me/private", "docker.io", True),
        ("docker.io/me/private", "docker.io", True),
        ("public.ecr.aws/docker/library/python:3.11", "registry.example.org", False),
        ("registry.example.org:5000/a", "registry.example.org", False),
    ],
)
def test_the_login_is_used_for_images_of_its_registry_alone(
    image: str, registry: str, used: bool
) -> None:
    arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:registry-a1b2c3"
    found = container(
        spec(container={"image": image}), registry=registry, registry_secret=f"aws-sm:{arn}"
    )

    assert found.get("repositoryCredentials") == ({"credentialsParameter": arn} if used else None)


@pytest.mark.parametrize("block", [False, True])
def test_machines_of_a_capacity_block_are_asked_for_on_its_market(block: bool) -> None:
    reserved = {"reservation": "cr-0123456789abcdef0", "instance_types": ["p5.48xlarge"]}
    step = steps(spec(), **reserved, capacity_block=block or None)["template"]

    made = step.do.params["LaunchTemplateData"]
    target = {"CapacityReservationId": "cr-0123456789abcdef0"}
    assert made["CapacityReservationSpecification"] == {"CapacityReservationTarget": target}
    market = {"MarketType": "capacity-block"} if block else None
    assert made.get("InstanceMarketOptions") == market
    assert ("the Capacity Block cr-" in step.title) == block


@pytest.mark.parametrize(
    ("profile", "device"),
    [
        ({}, "/dev/xvda"),
        ({"ami": "ami-1"}, "/dev/xvda"),
        ({"ami": "ami-1", "root_device": "/dev/sda1"}, "/dev/sda1"),
    ],
)
def test_a_disk_is_the_root_volume_of_the_ami(profile: dict[str, Any], device: str) -> None:
    """A mapping of another name would add a volume, and leave the root as small as it is."""
    made = steps(spec(cluster={"disk": "100GiB"}), **profile)["template"].do.params

    (mapping,) = made["LaunchTemplateData"]["BlockDeviceMappings"]
    assert mapping["DeviceName"] == device


@pytest.mark.parametrize("capacity,kind", [("on-demand", "FARGATE"), ("spot", "FARGATE_SPOT")])
def test_fargate_is_asked_for_what_it_knows(capacity: str, kind: str) -> None:
    found = resources(
        spec(cluster={"capacity": capacity}), kind.lower().replace("_", "-"), fargate=True
    )

    assert found["type"] == kind
    assert set(found) == {"type", "maxvCpus", "subnets", "securityGroupIds"}


@given(st.integers(1, 16), st.integers(1, 120))
def test_a_size_of_fargate_is_never_less_than_was_asked_for(cpus: int, gib: int) -> None:
    wanted = spec(cluster={"cpus": cpus, "memory": f"{gib}GiB"})

    decision = decide(wanted, AwsOptions(fargate=True))

    assert decision.fits
    have, memory_mib = float(decision.node.cpus), decision.node.memory_mib
    low, high, step = next(row[1:] for row in SIZES if row[0] == have)
    assert have >= cpus
    assert memory_mib >= gib * 1024
    assert low <= memory_mib <= high
    assert (memory_mib - low) % step == 0


@given(st.integers(1, 192), st.integers(1, 700))
def test_every_machine_that_is_chosen_holds_a_node(cpus: int, gib: int) -> None:
    wanted = spec(cluster={"cpus": cpus, "memory": f"{gib}GiB"})

    found = decide(wanted, AwsOptions()).candidates

    assert found
    for machine in (one.machine for one in found):
        assert machine.cpus is not None and machine.cpus >= cpus
        assert machine.memory_gib is not None
        assert gib * 1024 <= usable_mib(machine) < machine.memory_gib * 1024
        assert not machine.gpus


# What it is


def test_a_container_is_never_privileged() -> None:
    assert container(spec())["privileged"] is False
    assert "privileged" not in container(spec(), fargate=True)


def test_the_limits_of_a_spec_take_precedence_over_those_of_the_profile() -> None:
    wanted = spec(ulimits={"memlock": -1, "nofile": 9}, cluster={"nodes": 2})

    found = container(wanted, ulimits={"nofile": 1, "core": 0})["ulimits"]

    assert {limit["name"]: limit["hardLimit"] for limit in found} == {
        "core": 0,
        "memlock": -1,
        "nofile": 9,
    }


def test_gpus_are_a_requirement_and_have_room_for_data_loaders() -> None:
    found = container(spec(cluster={"gpus": 1, "gpu_type": "T4"}))

    assert {"type": "GPU", "value": "1"} in found["resourceRequirements"]
    memory = next(int(r["value"]) for r in found["resourceRequirements"] if r["type"] == "MEMORY")
    assert found["linuxParameters"]["sharedMemorySize"] == memory // 2


def test_no_gpu_is_not_0_gpus() -> None:
    kinds = [r["type"] for r in container(spec())["resourceRequirements"]]

    assert kinds == ["VCPU", "MEMORY"]


def test_a_log_driver_that_would_drop_lines_waits_instead() -> None:
    assert container(spec())["logConfiguration"]["options"]["mode"] == "blocking"


def test_a_secret_is_where_it_lives() -> None:
    found = container(spec(secrets={"T": "hf"}), secrets={"hf": SECRET})

    assert found["secrets"] == [{"name": "T", "valueFrom": SECRET.removeprefix("aws-sm:")}]


def test_a_shared_file_system_is_mounted_once_and_encrypted_on_the_way() -> None:
    more = {**SHARED, "name": "x", "source": "shared://work/b", "target": "/x"}

    found = container(spec(mounts=[SHARED, more]), shared={"work": "efs:fs-12345678"})

    (volume,) = found["volumes"]
    assert volume["efsVolumeConfiguration"]["transitEncryption"] == "ENABLED"
    assert [m["sourceVolume"] for m in found["mountPoints"]] == ["work"]


def test_fsx_for_lustre_is_a_folder_of_every_machine() -> None:
    found = container(spec(mounts=[SHARED]), shared={"work": "host:/fsx"})

    assert found["volumes"] == [{"name": "work", "host": {"sourcePath": "/fsx"}}]


def test_no_more_attempts_are_asked_for_than_batch_makes() -> None:
    found = steps(spec(retry={"spot_attempts": 1000}))

    assert found["definition"].do.params["retryStrategy"]["attempts"] == 10


def test_a_reclaimed_machine_is_tried_again_and_a_failure_is_not() -> None:
    strategy = steps(spec(retry={"spot_attempts": 4}))["definition"].do.params["retryStrategy"]

    assert strategy["attempts"] == 4
    first, *_, last = strategy["evaluateOnExit"]
    assert first == {"onStatusReason": "Host EC2*", "action": "RETRY"}
    assert last["action"] == "EXIT"
    assert len(strategy["evaluateOnExit"]) <= 5


@pytest.mark.parametrize("capacity", ["on-demand", "spot"])
@pytest.mark.parametrize("reason", ["lost", "image"])
@pytest.mark.parametrize("action", ["retry", "stop"])
def test_the_service_gets_the_rules_for_what_no_agent_sees(
    capacity: str, reason: str, action: str
) -> None:
    retry = {"spot_attempts": 4, "on": [{"reason": reason, "action": action}]}

    wanted = spec(retry=retry, cluster={"capacity": capacity})
    strategy = steps(wanted)["definition"].do.params["retryStrategy"]

    *rules, last = strategy["evaluateOnExit"]
    lost = "EXIT" if (reason, action) == ("lost", "stop") else "RETRY"
    assert rules[0] == {"onStatusReason": "Host EC2*", "action": lost}
    assert {r["action"] for r in rules if r.get("onExitCode") == "143"} <= {lost}
    pulled = {r["onReason"] for r in rules if "onReason" in r}
    usual = {"CannotPullContainerError: context canceled*"}
    assert pulled == (
        usual if reason == "lost" else {"CannotPull*"} if action == "retry" else set()
    )
    assert len(rules) < 5
    assert last == {"onStatusReason": "*", "action": "EXIT"}
    assert strategy["attempts"] == (1 if lost == "EXIT" else 4)


def test_the_code_for_another_try_is_the_one_that_the_job_gives() -> None:
    assert str(failure_count.AGAIN) == definition.AGAIN


def test_a_definition_does_not_change_with_the_run_or_what_is_mounted() -> None:
    mount = {"name": "c", "source": "./c", "target": "/c"}
    wanted = spec(mounts=[mount])
    one = plan.steps(wanted, "n-000001", facts(wanted))
    two = plan.steps(wanted, "n-000002", facts(wanted))

    assert [s for s in one if s.id == "definition"] == [s for s in two if s.id == "definition"]
    assert steps(wanted)["definition"] == steps(spec())["definition"]


def test_a_share_and_a_priority_are_those_of_the_profile() -> None:
    found = job(spec(), share="team", priority=7)

    assert (found["shareIdentifier"], found["schedulingPriorityOverride"]) == ("team", 7)


def test_tags_have_only_the_characters_that_tags_may_have() -> None:
    found = job(spec(), tags={"who?": "me & <you>"})["tags"]

    assert found["who_"] == "me _ _you_"


# How it is submitted

SHAPES: dict[str, tuple[dict[str, Any], JobKind, int]] = {
    "one": ({}, JobKind.SINGLE, 1),
    "a sweep": ({"sweep": {"a": "1..10000"}}, JobKind.ARRAY, 10_000),
    "a gang": ({"cluster": {"nodes": 3}}, JobKind.NODES, 3),
    "nodes on spot": ({"cluster": {"nodes": 3, "capacity": "spot"}}, JobKind.ARRAY, 3),
    "nodes of tasks": ({"cluster": {"nodes": 3}, "sweep": {"a": "1..2"}}, JobKind.ARRAY, 6),
    "a sweep of one": ({"sweep": {"a": ["x"]}}, JobKind.SINGLE, 1),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_spec_is_one_submission(name: str) -> None:
    fields, kind, count = SHAPES[name]
    wanted = spec(**fields)

    found = job(wanted)

    assert decide_shape(wanted).kind is kind
    assert decide_shape(wanted).children == count
    assert found.get("arrayProperties") == ({"size": count} if kind is JobKind.ARRAY else None)
    assert ("nodeOverrides" in found) == (kind is JobKind.NODES)
    assert [s for s in steps(wanted) if s == "job"] == ["job"]


@given(st.integers(1, 5), st.lists(st.integers(1, 4), min_size=0, max_size=3))
def test_a_child_finds_the_task_and_the_rank_that_the_plan_meant(
    nodes: int, sizes: list[int]
) -> None:
    sweep = {f"p{i}": [str(n) for n in range(size)] for i, size in enumerate(sizes)}
    wanted = spec(cluster={"nodes": nodes, "capacity": "spot"}, sweep=sweep)
    record: dict[str, Any] = {
        "shape": str(decide_shape(wanted).kind),
        "nodes": nodes,
        "sweep": [[name, list(v)] for name, v in wanted.sweep.items()],
    }

    places = job_nodes.places("j", record)

    assert [(p.task, p.rank) for p in places] == [
        (task, rank) for task in range(len(tasks(wanted))) for rank in range(nodes)
    ]
    for place in places:
        env = {"RUNSPEC_JOB": "j:1", "RUNSPEC_INDEX": place.job.partition(":")[2] or "0"}
        found = task_identity.place(env, record)
        assert (found.task, found.rank) == (place.task, place.rank)
        assert task_identity.values(record["sweep"], found.task) == tasks(wanted)[place.task]


def test_overrides_of_the_longest_run_fit_into_their_limit() -> None:
    """https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerOverrides.html"""
    longest = "n" * 40 + "-abc123"

    options = AwsOptions.model_validate({**PROFILE, "files": "signed"})
    url = "https://x.s3.eu-central-1.amazonaws.com/?" + "x" * 3000  # with a session's token

    found = str(plan.overrides(longest, options)).replace("{'$signed'", url)

    assert len(found) < 8192


def test_nodes_of_an_array_that_a_launcher_joins_have_machines_of_their_own() -> None:
    """They have their machine's network, so two on one would have one address."""
    wanted = spec(cluster={"nodes": 2, "capacity": "spot"}, launch="mpi")

    (machine,) = resources(wanted, "spot")["instanceTypes"]

    asked = {r["type"]: int(r["value"]) for r in container(wanted)["resourceRequirements"]}
    there = known(machine)
    assert there is not None and there.cpus is not None
    assert 2 * asked["VCPU"] > there.cpus
    assert asked["VCPU"] <= there.cpus


def test_a_reclaim_is_known_by_the_words_of_its_service() -> None:
    def rules(**profile: object) -> list[dict[str, str]]:
        params = steps(spec(cluster={"capacity": "spot"}), **profile)["definition"].do.params
        return list(params["retryStrategy"]["evaluateOnExit"])

    assert {"onStatusReason": "Host EC2*", "action": "RETRY"} in rules()
    interrupted = {"onStatusReason": "Your Spot Task was interrupted*", "action": "RETRY"}
    assert interrupted in rules(fargate=True)
    assert all(len(found) <= 5 for found in (rules(), rules(fargate=True)))


@pytest.mark.parametrize(
    "fields,profile,asks",
    [
        ({}, {}, False),
        ({"cluster": {"capacity": "spot"}}, {}, True),
        ({"cluster": {"capacity": "spot-then-on-demand"}}, {}, True),
        ({}, {"queue": "theirs"}, True),
        ({"cluster": {"nodes": 2}}, {"queue": "theirs"}, False),
        ({"cluster": {"capacity": "spot"}}, {"fargate": True}, False),
    ],
)
def test_a_job_asks_for_notices_where_its_machine_may_be_a_spot_machine(
    fields: dict[str, Any], profile: dict[str, Any], asks: bool
) -> None:
    """Nobody knows what is behind a queue of the profile, but that gangs do not run on spot."""
    body = json.loads(steps(spec(**fields), **profile)["record"].do.params["Body"])

    assert body["spot"] is asks


@pytest.mark.parametrize(
    "attempt,taken",
    [
        ({"statusReason": "Host EC2 (instance i-1) terminated."}, True),
        ({"statusReason": "Your Spot Task was interrupted."}, True),
        ({"statusReason": reasons.EXITED, "container": {"exitCode": 143}}, True),
        ({"statusReason": reasons.EXITED, "container": {"exitCode": 75}}, False),
        (
            {
                "statusReason": "Job attempt duration exceeded timeout",
                "container": {"exitCode": 143},
            },
            False,
        ),
        ({"statusReason": "cancelled", "container": {"exitCode": 143}}, False),
    ],
)
def test_a_try_that_left_its_machine_counts_as_reclaimed_and_one_that_was_ended_does_not(
    attempt: dict[str, Any], taken: bool
) -> None:
    again = definition.retry_strategy(
        decide(spec(cluster={"capacity": "spot"}), AwsOptions()), AwsOptions()
    )
    assert bool(reasons.reclaimed({"attempts": [attempt], "retryStrategy": again})) is taken


def test_a_job_that_is_not_on_spot_machines_has_its_own_143() -> None:
    """It is no reclaim, and is not tried again."""
    own = {"statusReason": reasons.EXITED, "container": {"exitCode": 143}}
    again = definition.retry_strategy(decide(spec(), AwsOptions()), AwsOptions())

    assert "143" not in {rule.get("onExitCode") for rule in again["evaluateOnExit"]}
    assert reasons.reclaimed({"attempts": [own], "retryStrategy": again}) == ""


def test_a_job_that_waits_in_vain_is_given_up_where_the_profile_says_when() -> None:
    """A bound is of the queue, so a queue of another bound is another queue."""
    bound = steps(spec(), max_queue_wait="30m")["queue"].do.params

    assert bound["jobStateTimeLimitActions"] == [
        {"reason": reason, "state": "RUNNABLE", "action": "CANCEL", "maxTimeSeconds": 1800}
        for reason in compute_environments.HOPELESS
    ]
    names = {
        steps(spec(), **profile)["queue"].do.params["jobQueueName"]
        for profile in ({}, {"max_queue_wait": "30m"}, {"max_queue_wait": "31m"})
    }
    assert len(names) == 3
    assert "jobStateTimeLimitActions" not in steps(spec())["queue"].do.params


def test_every_reason_that_a_job_is_given_up_for_has_words() -> None:
    for reason in compute_environments.HOPELESS:
        said = f"Canceled by JobStateTimeLimit action due to reason: {reason}"

        told = reasons.ended({"statusReason": said})

        assert told == f"max_queue_wait has passed: {reasons.STUCK[reason]} ({said})"


def test_a_small_disk_is_as_large_as_the_machine_image() -> None:
    made = steps(spec(cluster={"disk": "8GiB"}))["template"].do.params["LaunchTemplateData"]

    assert made["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 30


def test_nodes_of_a_smoke_test_are_told_what_to_look_at_when_they_cannot_talk() -> None:
    smoke = {"cluster": {"nodes": 2}, "env": {"RUNSPEC_SMOKE": "1"}}

    body = json.loads(steps(spec(**smoke), security_groups=["sg-2"])["record"].do.params["Body"])

    assert body["reach"].startswith(
        "one of the security groups sg-2 must let all TCP in from itself"
    )
