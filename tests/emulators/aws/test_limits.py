"""Requests are read as they were written, and refused where the service refuses."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings, strategies as st

from runspec_emulators.aws.limits import LIMITS
from runspec_emulators.aws.models import operation_model
from tests.emulators.aws.stand import RESOURCES, Stand, container

JOB = {"jobName": "job", "jobQueue": "queue", "jobDefinition": "definition"}
ENV = [{"name": "AWS_BATCH_X", "value": "1"}]
RULE = {"action": "EXIT", "onExitCode": "1"}
DEFINITION = {"jobDefinitionName": "new", "type": "container"}


def job(**more: Any) -> tuple[str, dict[str, Any]]:
    return "submit_job", {**JOB, **more}


def retry(**strategy: Any) -> tuple[str, dict[str, Any]]:
    return job(retryStrategy={"attempts": 2, **strategy})


def definition(**more: Any) -> tuple[str, dict[str, Any]]:
    properties = {"containerProperties": container([":"])}
    return "register_job_definition", {**DEFINITION, **properties, **more}


def contained(**more: Any) -> tuple[str, dict[str, Any]]:
    return definition(containerProperties=container([":"], **more))


def group(**more: Any) -> dict[str, Any]:
    return {"targetNodes": "0:", "container": container([":"], **more)}


def nodes(*groups: dict[str, Any], count: int = 2, main: int = 0) -> tuple[str, dict[str, Any]]:
    properties = {"numNodes": count, "mainNode": main, "nodeRangeProperties": list(groups)}
    return "register_job_definition", {
        "jobDefinitionName": "new",
        "type": "multinode",
        "nodeProperties": properties,
    }


def override(**members: Any) -> tuple[str, dict[str, Any]]:
    return job(containerOverrides=members)


def node_override(**members: Any) -> tuple[str, dict[str, Any]]:
    target = {"targetNodes": "0:", "containerOverrides": members}
    return job(jobDefinition="nodes", nodeOverrides={"nodePropertyOverrides": [target]})


def limited(seconds: int) -> dict[str, Any]:
    action = {"reason": "r", "state": "RUNNABLE", "maxTimeSeconds": seconds, "action": "CANCEL"}
    return {"jobStateTimeLimitActions": [action]}


def queue(**more: Any) -> tuple[str, dict[str, Any]]:
    order = [{"order": 1, "computeEnvironment": "ce"}]
    given = {"jobQueueName": "new", "priority": 1, "computeEnvironmentOrder": order}
    return "create_job_queue", {**given, **more}


# One for every entry of the table, and for the sizes that stand beside it.
OF_THE_TABLE: list[tuple[str, tuple[str, dict[str, Any]]]] = [
    ("jobName", job(jobName="-job")),
    ("jobName", job(jobName="j" * 129)),
    ("jobDefinitionName", definition(jobDefinitionName="a b")),
    (
        "computeEnvironmentName",
        ("create_compute_environment", {"computeEnvironmentName": "a.b", "type": "UNMANAGED"}),
    ),
    ("jobQueueName", queue(jobQueueName="a.b")),
    ("arrayProperties.size", job(arrayProperties={"size": 1})),
    ("arrayProperties.size", job(arrayProperties={"size": 10_001})),
    ("dependsOn", job(dependsOn=[{"jobId": "x"}] * 21)),
    ("schedulingPriorityOverride", job(schedulingPriorityOverride=10_000)),
    ("schedulingPriority", definition(schedulingPriority=-1)),
    ("retryStrategy.attempts", retry(attempts=11)),
    ("retryStrategy.attempts", retry(attempts=0)),
    ("retryStrategy.evaluateOnExit", retry(evaluateOnExit=[RULE] * 6)),
    ("retryStrategy", job(retryStrategy={"evaluateOnExit": [RULE]})),
    (
        "retryStrategy.evaluateOnExit[].onExitCode",
        retry(evaluateOnExit=[{**RULE, "onExitCode": "1x"}]),
    ),
    (
        "retryStrategy.evaluateOnExit[].onReason",
        retry(evaluateOnExit=[{**RULE, "onReason": "a(b)"}]),
    ),
    (
        "retryStrategy.evaluateOnExit[].onStatusReason",
        retry(evaluateOnExit=[{**RULE, "onStatusReason": "*x"}]),
    ),
    ("timeout.attemptDurationSeconds", job(timeout={"attemptDurationSeconds": 0})),
    ("reason", ("terminate_job", {"jobId": "x", "reason": "r" * 1025})),
    ("jobs", ("describe_jobs", {"jobs": ["x"] * 101})),
    ("jobDefinitions", ("describe_job_definitions", {"jobDefinitions": ["x:1"] * 101})),
    ("", ("list_jobs", {"jobQueue": "queue", "arrayJobId": "x"})),
    ("filters", ("list_jobs", {"jobQueue": "queue", "filters": [{"name": "JOB_NAME"}] * 2})),
    ("maxResults", ("list_jobs", {"jobQueue": "queue", "maxResults": 0})),
    ("jobStateTimeLimitActions[].maxTimeSeconds", queue(**limited(599))),
    ("containerProperties.image", contained(image="a b")),
    (
        "containerProperties.linuxParameters.swappiness",
        contained(linuxParameters={"swappiness": 101}),
    ),
    ("containerProperties.volumes[].name", contained(volumes=[{"name": "a/b"}])),
    ("containerProperties.environment[].name", contained(environment=ENV)),
    (
        "nodeProperties.nodeRangeProperties[].container.environment[].name",
        nodes(group(environment=ENV)),
    ),
    ("containerOverrides.environment[].name", override(environment=ENV)),
    (
        "nodeOverrides.nodePropertyOverrides[].containerOverrides.environment[].name",
        node_override(environment=ENV),
    ),
    ("containerOverrides.command", override(command=["a", ""])),
    (
        "nodeOverrides.nodePropertyOverrides[].containerOverrides.command",
        node_override(command=[""]),
    ),
]

OTHERS: list[tuple[str, tuple[str, dict[str, Any]]]] = [
    ("Job size must be less than 30 KiB, got 3[01] KiB", job(parameters={"a": "x" * 30_720})),
    ("Job definition size must be less than 24 KiB", definition(parameters={"a": "x" * 24_576})),
    ("none of", retry(evaluateOnExit=[{"action": "STOP"}])),
    ("none of", definition(type="contaner")),
    ("is more than 50", job(tags={str(n): "" for n in range(51)})),
    ("JobQueue not found", job(jobQueue="nowhere")),
    ("JobDefinition not found", job(jobDefinition="nothing")),
    ("JobDefinition not found", job(jobDefinition="definition:99")),
    ("no fair-share", job(shareIdentifier="x")),
    ("Job not found", job(dependsOn=[{"jobId": "x"}])),
    ("is for array jobs", job(dependsOn=[{"type": "SEQUENTIAL"}])),
    ("has no jobId", job(arrayProperties={"size": 2}, dependsOn=[{"type": "N_TO_N"}])),
    ("isn't applicable to single-node", override(instanceType="m5.large")),
    ("use nodeOverrides", job(jobDefinition="nodes", containerOverrides={"command": ["x"]})),
    ("are for multi-node", job(nodeOverrides={"numNodes": 2})),
    ("does not support", job(ecsPropertiesOverride={"taskProperties": []})),
    ("needs containerProperties", ("register_job_definition", DEFINITION)),
    ("image is required", definition(containerProperties={"command": ["x"]})),
    ("at least one vCPU", contained(resourceRequirements=[{"type": "MEMORY", "value": "64"}])),
    ("at least 4 MiB", contained(resourceRequirements=[{"type": "VCPU", "value": "1"}])),
    ("is in both", contained(vcpus=1)),
    ("not a number", contained(resourceRequirements=[{"type": "VCPU", "value": "many"}])),
    ("leave out nodes", nodes({**group(), "targetNodes": "0:0"})),
    ("beyond the last", nodes({**group(), "targetNodes": "0:5"})),
    ("Invalid node range", nodes({**group(), "targetNodes": "a:b"})),
    ("must be less than numNodes", nodes(group(), main=2)),
    ("at most 5 node groups", nodes(*[group()] * 6)),
    ("name:revision", ("deregister_job_definition", {"jobDefinition": "definition"})),
    (
        "can't be used with other",
        ("describe_job_definitions", {"jobDefinitions": ["x:1"], "status": "ACTIVE"}),
    ),
    ("Job not found", ("terminate_job", {"jobId": "x", "reason": "r"})),
    ("does not support", ("describe_scheduling_policies", {"arns": ["x"]})),
    ("Invalid filter", ("list_jobs", {"jobQueue": "queue", "filters": [{"name": "X"}]})),
    ("Resource not found", ("list_tags_for_resource", {"resourceArn": "arn:x"})),
]


@pytest.fixture(scope="module")
def limits(shared: Stand) -> Stand:
    shared.define([":"])
    shared.define_nodes([":"], 2)
    return shared


def refusal(stand: Stand, call: tuple[str, dict[str, Any]]) -> Any:
    with pytest.raises(ClientError) as caught:
        getattr(stand.batch, call[0])(**call[1])
    answer = caught.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert answer["Error"]["Code"] == "ClientException"
    return answer["Error"]["Message"]


@pytest.mark.parametrize("path,call", OF_THE_TABLE)
def test_every_limit_of_the_table_is_kept(
    limits: Stand, path: str, call: tuple[str, dict[str, Any]]
) -> None:
    message = refusal(limits, call)

    assert message.startswith(path)


def test_no_limit_of_the_table_is_left_out() -> None:
    assert {path for path, _ in OF_THE_TABLE} == {limit.path for limit in LIMITS}


@pytest.mark.parametrize("words,call", OTHERS)
def test_contradicting_fields_are_refused(
    limits: Stand, words: str, call: tuple[str, dict[str, Any]]
) -> None:
    with pytest.raises(ClientError, match=words):
        getattr(limits.batch, call[0])(**call[1])


def test_the_least_timeout_is_a_minute_unless_set(limits: Stand) -> None:
    call = job(timeout={"attemptDurationSeconds": 59})

    limits.set(min_timeout_s=60)
    message = refusal(limits, call)
    limits.set(min_timeout_s=1)

    assert "must be at least 60" in message


def test_requests_that_botocore_would_not_send_are_refused_too(limits: Stand) -> None:
    """Other clients than botocore's do not check: unknown members, wrong types."""
    from botocore.config import Config

    from tests.emulators.aws.stand import session

    config = Config(parameter_validation=False, retries={"total_max_attempts": 1})
    loose = session().client("batch", endpoint_url=limits.server.url, config=config)

    for members in ({"jobName": 1}, {"retryStrategy": {"attempts": "2"}}):
        with pytest.raises(ClientError, match="Invalid type"):
            loose.submit_job(**{**JOB, **members})
    with pytest.raises(ClientError, match="Missing required"):
        loose.submit_job(jobName="x")


# What was sent is what is read


def values(shape: Any) -> st.SearchStrategy[Any]:
    """Make values that the model allows for a shape."""
    meta = shape.metadata
    if shape.type_name == "structure":
        required = {k: values(v) for k, v in shape.members.items() if k in shape.required_members}
        rest = {k: values(v) for k, v in shape.members.items() if k not in required}
        return st.fixed_dictionaries(required, optional=rest)
    if shape.type_name == "list":
        return st.lists(values(shape.member), min_size=meta.get("min", 0), max_size=2)
    if shape.type_name == "map":
        keys, least = values(shape.key), meta.get("min", 0)
        return st.dictionaries(keys, values(shape.value), min_size=least, max_size=2)
    if "enum" in meta:
        return st.sampled_from(meta["enum"])
    simple = {
        "string": st.text(min_size=meta.get("min", 0), max_size=meta.get("max", 20)),
        "integer": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "boolean": st.booleans(),
    }
    return simple[shape.type_name]


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(params=values(operation_model("batch", "SubmitJob").input_shape))
def test_a_request_is_read_as_it_was_given(shared: Stand, params: dict[str, Any]) -> None:
    try:
        shared.batch.submit_job(**params)
    except ClientError:
        pass

    assert shared.ask("GET", "calls")[-1]["params"] == params


def test_an_arn_in_the_path_is_read_whole(shared: Stand) -> None:
    arn = shared.batch.describe_job_queues()["jobQueues"][0]["jobQueueArn"]

    shared.batch.tag_resource(resourceArn=arn, tags={"a": "1", "b": "2"})
    shared.batch.untag_resource(resourceArn=arn, tagKeys=["a", "é&="])

    assert shared.batch.list_tags_for_resource(resourceArn=arn)["tags"] == {"b": "2"}
    assert shared.ask("GET", "calls")[-2]["params"]["tagKeys"] == ["a", "é&="]


def test_resources_of_managed_environments_are_checked(shared: Stand) -> None:
    def refused(**resources: Any) -> str:
        with pytest.raises(ClientError) as caught:
            shared.batch.create_compute_environment(
                computeEnvironmentName="new",
                type="MANAGED",
                computeResources={**RESOURCES, **resources},
            )
        return str(caught.value)

    assert "spotIamFleetRole is required" in refused(type="SPOT")
    assert "not applicable to Fargate" in refused(type="FARGATE")
    assert "subnets is required" in refused(subnets=[])
    assert "instanceTypes and instanceRole" in refused(instanceTypes=[])
