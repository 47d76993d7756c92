"""What a call asks of IAM: the actions, on which resources, in which context; by the service's own reference.

https://docs.aws.amazon.com/service-authorization/latest/reference/list_batch.html and its neighbours.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.aws.iam_policy import Asked

ACCOUNT, REGION = "123456789012", "eu-central-1"
TASKS = {"iam:PassedToService": "ecs-tasks.amazonaws.com"}
MACHINES = {"iam:PassedToService": "ec2.amazonaws.com"}
BATCH = {"iam:AWSServiceName": "batch.amazonaws.com"}
OWN_ROLE = (
    f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"
)


def arn(service: str, resource: str) -> str:
    return (
        resource
        if resource.startswith("arn:")
        else f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"
    )


def named(kind: str, given: str) -> str:
    """Give the ARN of a thing of Batch, which calls may name either way."""
    return given if given.startswith("arn:") else arn("batch", f"{kind}/{given}")


# AWS Batch and CloudWatch Logs, as the stand-in got them


def of_batch(call: Mapping[str, Any]) -> Iterator[Asked]:
    operation, params = call["operation"], call["params"]
    action = f"{call['service']}:{ACTIONS.get(operation, operation)}"
    if operation.startswith(("Describe", "List")):
        yield Asked(action)
    elif operation == "GetLogEvents":
        stream = f"log-group:{params['logGroupName']}:log-stream:{params['logStreamName']}"
        yield Asked(action, arn("logs", stream))
    else:
        about = list(ABOUT[operation](params))
        yield from (Asked(action, resource) for resource in about)
        if params.get("tags"):
            yield Asked("batch:TagResource", about[0])
        yield from _passed(params)


# "There is no separate batch:TerminateJobs IAM action", says
# https://docs.aws.amazon.com/batch/latest/APIReference/API_TerminateJobs.html
ACTIONS = {"TerminateJobs": "TerminateJob"}

ABOUT: Mapping[str, Any] = {
    "CreateComputeEnvironment": lambda p: [
        named("compute-environment", p["computeEnvironmentName"])
    ],
    "UpdateComputeEnvironment": lambda p: [named("compute-environment", p["computeEnvironment"])],
    "DeleteComputeEnvironment": lambda p: [named("compute-environment", p["computeEnvironment"])],
    "CreateJobQueue": lambda p: [
        named("job-queue", p["jobQueueName"]),
        *(one["computeEnvironment"] for one in p["computeEnvironmentOrder"]),
    ],
    "UpdateJobQueue": lambda p: [named("job-queue", p["jobQueue"])],
    "DeleteJobQueue": lambda p: [named("job-queue", p["jobQueue"])],
    "RegisterJobDefinition": lambda p: [named("job-definition", p["jobDefinitionName"])],
    "DeregisterJobDefinition": lambda p: [named("job-definition", p["jobDefinition"])],
    "SubmitJob": lambda p: [
        named("job", "8a1bc"),
        named("job-definition", p["jobDefinition"]),
        named("job-queue", p["jobQueue"]),
    ],
    "TerminateJob": lambda p: [named("job", p["jobId"])],
    "TerminateJobs": lambda p: [named("job", one) for one in p["jobs"]],
}


def _passed(params: Mapping[str, Any]) -> Iterator[Asked]:
    """Give the roles that a call hands to a service."""
    groups = params.get("nodeProperties", {}).get("nodeRangeProperties", ())
    containers = [g["container"] for g in groups] + [params.get("containerProperties", {})]
    for container in containers:
        for key in ("jobRoleArn", "executionRoleArn"):
            if key in container:
                yield Asked("iam:PassRole", container[key], TASKS)
    if "computeResources" in params:
        role = params["computeResources"]["instanceRole"].replace(":instance-profile/", ":role/")
        yield Asked("iam:PassRole", role, MACHINES)
        yield Asked("iam:CreateServiceLinkedRole", OWN_ROLE, BATCH)


# S3 and EC2, as moto recorded them


class Wire(NamedTuple):
    """One HTTP request."""

    agent: str
    method: str
    path: str
    query: Mapping[str, list[str]]
    body: bytes
    headers: Mapping[str, str] = {}


def recorded(path: Path) -> Iterator[Wire]:
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        body = base64.b64decode(entry["body"] or "") if entry["body_encoded"] else b""
        where = urlsplit(entry["url"])
        query = parse_qs(where.query, keep_blank_values=True)
        headers = {name.lower(): value for name, value in entry["headers"].items()}
        agent = headers.get("user-agent", "")
        yield Wire(agent, entry["method"], unquote(where.path), query, body, headers)


def of_wire(wire: Wire) -> Iterator[Asked]:
    if wire.headers.get("x-amz-target", "").startswith("secretsmanager."):
        return of_secrets(wire)
    return of_ec2(wire) if b"Action=" in wire.body and wire.path == "/" else of_s3(wire)


def of_secrets(wire: Wire) -> Iterator[Asked]:
    """https://docs.aws.amazon.com/service-authorization/latest/reference/list_awssecretsmanager.html"""
    operation, params = wire.headers["x-amz-target"].partition(".")[2], json.loads(wire.body)
    if operation == "ListSecrets":
        yield Asked("secretsmanager:ListSecrets")
        return
    name = params.get("SecretId") or params["Name"]
    secret = name if name.startswith("arn:") else arn("secretsmanager", f"secret:{name}-a1b2c3")
    yield Asked(f"secretsmanager:{operation}", secret)
    if "Tags" in params:
        yield Asked("secretsmanager:TagResource", secret)


def of_ec2(wire: Wire) -> Iterator[Asked]:
    form = {key: values[0] for key, values in parse_qs(wire.body.decode()).items()}
    group = arn("ec2", f"placement-group/{form.get('GroupName')}")
    template = arn("ec2", "launch-template/lt-0abc")
    about = {
        "CreatePlacementGroup": group,
        "DeletePlacementGroup": group,
        "CreateLaunchTemplate": template,
        "DeleteLaunchTemplate": template,
        "DescribePlacementGroups": "*",
        "DescribeLaunchTemplates": "*",
    }
    yield Asked(f"ec2:{form['Action']}", about[form["Action"]])


def of_s3(wire: Wire) -> Iterator[Asked]:
    """https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html"""
    bucket, _, key = wire.path.lstrip("/").partition("/")
    resource = f"arn:aws:s3:::{bucket}/{key}".rstrip("/") if key else f"arn:aws:s3:::{bucket}"
    if wire.method == "POST" and "delete" in wire.query:
        for name in re.findall(r"<Key>([^<]+)</Key>", wire.body.decode()):
            yield Asked("s3:DeleteObject", f"arn:aws:s3:::{bucket}/{name}")
        return
    upload, on_object = "uploadId" in wire.query, bool(key)
    action = {
        ("GET", False, False): "ListBucketMultipartUploads"
        if "uploads" in wire.query
        else "ListBucket",
        ("HEAD", False, False): "ListBucket",
        ("GET", True, True): "ListMultipartUploadParts",
        ("GET", True, False): "GetObject",
        ("HEAD", True, False): "GetObject",
        ("PUT", True, False): "PutObject",
        ("PUT", True, True): "PutObject",
        ("POST", True, False): "PutObject",
        ("POST", True, True): "PutObject",
        ("DELETE", True, False): "DeleteObject",
        ("DELETE", True, True): "AbortMultipartUpload",
    }[wire.method, on_object, upload]
    yield Asked(f"s3:{action}", resource)
    yield from _copied(wire, resource)


def _copied(wire: Wire, resource: str) -> Iterator[Asked]:
    source = wire.headers.get("x-amz-copy-source")
    if source is None:
        return
    origin = f"arn:aws:s3:::{unquote(source).lstrip('/')}"
    yield Asked("s3:GetObject", origin)
    if "uploadId" not in wire.query and wire.headers.get("x-amz-tagging-directive") != "REPLACE":
        yield Asked("s3:GetObjectTagging", origin)
        yield Asked("s3:PutObjectTagging", resource)
