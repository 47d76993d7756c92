"""What each operation has to say of the account: a drawn answer may say more, and this too."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.drawn import aws_models
from tests.drawn.aws_account import (
    ARN,
    BUCKET,
    EARLY,
    JOB,
    PREFIX,
    QUEUE,
    RUN,
    Account,
    Params,
)
from tests.support.http_server import Reply

Truth = Callable[[Account, Params], Any]
LOG = "jobdef/default/0123456789abcdef"
ENVIRONMENT = "runspec-ec2-0123456789ab"
DEFINITION = "runspec-definition-0123456789ab"
TEMPLATE, PLACEMENT = "runspec-machine-0123456789ab", "runspec-close-0123456789ab"
VPC, SUBNET, GROUP = "vpc-1", "subnet-1", "sg-1"
FSX = "fs-0123456789abcdef0"
SECRET = f"runspec/{RUN}/TOKEN"
SECRET_ARN = f"arn:aws:secretsmanager:eu-central-1:123456789012:secret:{SECRET}-a1b2c3"
FAILED_WITH = 3
CHILDREN = 6  # of a large array


def paged(account: Account, token: str | None, key: str, made: Callable[[str], Any]) -> Any:
    """Return the page that *token* stands for, and the token of the next one."""
    pages, at = account.world.pages, int(token or 0)
    more = {"nextToken": str(at + 1)} if at + 1 < len(pages) else {"nextToken": None}
    return {key: [made(name) for name in pages[at]], **more}


def named(params: Params, key: str) -> list[str]:
    return list(params.get(key, ()))


# AWS Batch


def describe_jobs(account: Account, params: Params) -> Any:
    return {"jobs": [_job(account, name) for name in params["jobs"]]}


def _job(account: Account, name: str) -> dict[str, Any]:
    world, status = account.world, status_of(account, name)
    # Batch leaves out what has not come yet.
    job: dict[str, Any] = {"jobId": name, "jobName": RUN, "status": status}
    job |= {"attempts": None, "arrayProperties": None, "stoppedAt": None, "retryStrategy": None}
    if status in ("RUNNING", "SUCCEEDED", "FAILED"):
        job["container"] = {"logStreamName": LOG, "exitCode": None}
    if world.shape == "array" and ":" not in name:
        # An array is PENDING while its children wait or run.
        job["arrayProperties"] = {"size": 2, "statusSummary": {status: 2}}
    if world.shape == "large" and ":" not in name:
        counts = dict(Counter(world.phases[world.phase]))
        job["arrayProperties"] = {"size": CHILDREN, "statusSummary": counts}
    if status in ("SUCCEEDED", "FAILED"):
        job["container"] |= {"exitCode": FAILED_WITH if status == "FAILED" else 0}
        job["stoppedAt"] = int(EARLY.timestamp() * 1000)
    return job


def status_of(account: Account, name: str) -> str:
    world = account.world
    if world.shape != "large":
        return "FAILED" if "TerminateJob" in account.done else world.status
    children = world.phases[world.phase]
    if ":" in name:
        return children[int(name.partition(":")[2])]
    if not {"SUCCEEDED", "FAILED"} >= {*children}:
        return "PENDING"
    return "FAILED" if "FAILED" in children else "SUCCEEDED"


def list_children(account: Account, params: Params) -> Any:
    """Return a page of the children of a status; one page is empty, and not the last."""
    names = [f"{JOB}:{n}" for n in range(CHILDREN)]
    found = [name for name in names if status_of(account, name) == params["jobStatus"]]
    pages = (found[:1], found[:0], found[1:])
    at = int(params.get("nextToken") or 0)
    made = [{"jobId": n, "jobName": RUN, "status": params["jobStatus"]} for n in pages[at]]
    return {"jobSummaryList": made, "nextToken": str(at + 1) if at < 2 else None}


def list_jobs(account: Account, params: Params) -> Any:
    if "arrayJobId" in params:
        return list_children(account, params)

    def summary(name: str) -> dict[str, Any]:
        found = {"jobName": RUN if name.startswith(JOB) else name, "jobId": name}
        return {**found, "jobArn": f"{ARN}:job/{name}", "status": "RUNNING"}

    status = params.get("jobStatus")
    if status not in (None, "RUNNING"):
        return {"jobSummaryList": [], "nextToken": None}
    return paged(account, params.get("nextToken"), "jobSummaryList", summary)


def queue(account: Account, name: str) -> dict[str, Any]:
    order = [{"order": 1, "computeEnvironment": f"{ARN}:compute-environment/{ENVIRONMENT}"}]
    return {
        "jobQueueName": name,
        "jobQueueArn": f"{ARN}:job-queue/{name}",
        "state": _state(account, "UpdateJobQueue"),
        "status": account.world.health,
        "computeEnvironmentOrder": order,
        "tags": {"runspec:kind": "queue"},
    }


def environment(account: Account, name: str) -> dict[str, Any]:
    return {
        "computeEnvironmentName": name,
        "computeEnvironmentArn": f"{ARN}:compute-environment/{name}",
        "state": _state(account, "UpdateComputeEnvironment"),
        "status": account.world.health,
        "computeResources": {"type": "EC2"},
        "tags": {"runspec:kind": "environment"},
    }


def _state(account: Account, update: str) -> str:
    return "DISABLED" if update in account.done else account.world.state


def describe_queues(account: Account, params: Params) -> Any:
    return _things(account, params, "jobQueues", "DeleteJobQueue", queue)


def describe_environments(account: Account, params: Params) -> Any:
    return _things(account, params, "computeEnvironments", "DeleteComputeEnvironment", environment)


def _things(
    account: Account, params: Params, key: str, delete: str, made: Callable[[Account, str], Any]
) -> Any:
    if key in params:
        there = account.world.there and delete not in account.done
        names = [name.rpartition("/")[2] for name in params[key]] if there else []
        return {key: [made(account, name) for name in names], "nextToken": None}
    return paged(
        account, params.get("nextToken"), key, lambda name: made(account, f"runspec-{name}")
    )


def describe_definitions(account: Account, params: Params) -> Any:
    def definition(name: str) -> dict[str, Any]:
        return {
            "jobDefinitionName": DEFINITION,
            "jobDefinitionArn": f"{ARN}:job-definition/{DEFINITION}:{name}",
            "revision": int(name),
            "status": "ACTIVE",
            "type": "container",
        }

    there = account.world.there and "DeregisterJobDefinition" not in account.done
    names = ["1", "3", "2"] if there else []
    return {"jobDefinitions": [definition(name) for name in names], "nextToken": None}


# CloudWatch Logs


def get_log_events(account: Account, params: Params) -> Any:
    """The token of a page that has nothing after it is the one that was asked with."""
    pages, token = account.world.pages, params.get("nextToken")
    at = int(token.partition("/")[2]) if token else 0
    events = [{"message": text} for text in pages[at]] if at < len(pages) else []
    after = f"f/{min(at + 1, len(pages))}"
    return {"events": events, "nextForwardToken": after, "nextBackwardToken": "b/0"}


# S3


def key_of(params: Params) -> str:
    return str(params["path"]).removeprefix(f"/{BUCKET}/")


def record(account: Account) -> bytes:
    nodes = 2 if account.world.shape == "nodes" else 1
    count = {"array": 2, "large": CHILDREN}.get(account.world.shape, 0)
    sweep = [["n", [str(n) for n in range(count)]]] if count else []
    shape = "array" if count else account.world.shape
    elastic = account.world.shape == "elastic"
    if elastic:
        shape, sweep = "array", [["n", ["1"]]]
    found: dict[str, Any] = {"shape": shape, "nodes": nodes, "queue": QUEUE, "sweep": sweep}
    if elastic:
        found["elastic"] = {"min": 1, "max": 2}
    return json.dumps({**found, "tries": 1, "log_group": "/aws/batch/job"}).encode()


def content(account: Account, key: str) -> bytes | None:
    if key == f"{PREFIX}/runs/{RUN}/record.json":
        return record(account)
    return account.world.files.get(key)


def get_object(account: Account, params: Params) -> Any:
    found = content(account, key_of(params))
    if found is None:
        return aws_models.refusal("s3", "NoSuchKey", 404)
    return {"Body": found, "ETag": '"e"', "LastModified": EARLY}


def head_object(account: Account, params: Params) -> Any:
    there = account.world.there and "DeleteObject" not in account.done
    return {"ETag": '"e"', "LastModified": EARLY} if there else Reply(404)


def put_object(account: Account, params: Params) -> Any:
    """An object that an earlier request of the session has written exists, with the ETag "e".

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
    """
    before = [call.params["path"] for call in account.called("PutObject")[:-1]]
    if params["conditions"] and params["path"] in before:
        body = b"<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>"
        return Reply(412, {"Content-Type": "application/xml"}, body)
    return {"ETag": '"e"'}


def list_objects(account: Account, params: Params) -> Any:
    base, world = str(params.get("prefix", "")), account.world
    at = int(params.get("continuation-token") or 0)
    names = world.pages[at]
    more = at + 1 < len(world.pages)
    found: dict[str, Any] = {
        "IsTruncated": more,
        "NextContinuationToken": str(at + 1) if more else None,
        "Name": BUCKET,
        "EncodingType": None,
    }
    if "delimiter" in params:
        return {
            **found,
            "CommonPrefixes": [{"Prefix": f"{base}{n}/"} for n in names],
            "Contents": None,
        }
    made = [_listed(account, base, n) for n in names]
    return {**found, "Contents": made or None, "CommonPrefixes": None}


def _listed(account: Account, base: str, name: str) -> dict[str, Any]:
    key = name if name.startswith(PREFIX + "/") else base + name
    size = len(account.world.files.get(key, b"12345"))
    return {"Key": key, "Size": size, "ETag": '"e"', "LastModified": EARLY}


def list_versions(account: Account, params: Params) -> Any:
    """Each object has one version, and a delete marker over it."""
    base, at = str(params.get("prefix", "")), int(params.get("key-marker") or 0)
    keys = [_listed(account, base, name)["Key"] for name in account.world.pages[at]]
    more = at + 1 < len(account.world.pages)
    return {
        "IsTruncated": more,
        "NextKeyMarker": str(at + 1) if more else None,
        "NextVersionIdMarker": "v" if more else None,
        "EncodingType": None,
        "Versions": [{"Key": key, "VersionId": f"{key}-v"} for key in keys] or None,
        "DeleteMarkers": [{"Key": key, "VersionId": f"{key}-m"} for key in keys] or None,
        "CommonPrefixes": None,
    }


def list_uploads(account: Account, params: Params) -> Any:
    base, at = str(params.get("prefix", "")), int(params.get("key-marker") or 0)
    pages = account.world.pages
    more = at + 1 < len(pages)
    uploads = [_upload(base, name) for name in pages[at]]
    marks = {"NextKeyMarker": str(at + 1) if more else None, "NextUploadIdMarker": None}
    return {"Uploads": uploads, "IsTruncated": more, **marks, "Bucket": BUCKET}


def _upload(base: str, name: str) -> dict[str, Any]:
    key = base + name if base.endswith("/") else base
    return {"Key": key, "UploadId": f"u-{name}", "Initiated": EARLY}


def list_parts(account: Account, params: Params) -> Any:
    pages, at = account.world.parts, int(params.get("part-number-marker") or 0)
    more = at + 1 < len(pages)
    found = [part_of(int(name.rstrip("x")), account.world.files[name]) for name in pages[at]]
    return {
        "Parts": found,
        "IsTruncated": more,
        "NextPartNumberMarker": at + 1 if more else None,
    }


def part_of(number: int, data: bytes) -> dict[str, Any]:
    etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
    return {"PartNumber": number, "ETag": etag, "Size": len(data), "LastModified": EARLY}


def delete_objects(account: Account, params: Params) -> Any:
    return {"Errors": None, "Deleted": None}


# EC2


def _there(account: Account, delete: str, made: Callable[[str], Any], params: Params) -> list[Any]:
    """What is asked for by its name, or by none: then pages, of all there is."""
    named = [v for k, v in params.items() if k.startswith(("GroupName.", "LaunchTemplateName."))]
    if named:
        there = account.world.there and delete not in account.done
        return [made(name) for name in named if there]
    return [made(name) for page in account.world.pages for name in page]


def describe_placements(account: Account, params: Params) -> Any:
    made = lambda name: {"GroupName": name, "State": "available", "Strategy": "cluster"}  # noqa: E731
    return {"PlacementGroups": _there(account, "DeletePlacementGroup", made, params)}


def describe_templates(account: Account, params: Params) -> Any:
    made = lambda name: {"LaunchTemplateName": name, "LaunchTemplateId": "lt-1"}  # noqa: E731
    found = _there(account, "DeleteLaunchTemplate", made, params)
    return {"LaunchTemplates": found, "NextToken": None}


def describe_subnets(account: Account, params: Params) -> Any:
    one = {"SubnetId": SUBNET, "VpcId": VPC, "AvailabilityZone": "eu-central-1a"}
    return {"Subnets": [one], "NextToken": None}


def describe_routes(account: Account, params: Params) -> Any:
    table = {
        "VpcId": VPC,
        "Associations": [{"SubnetId": SUBNET, "Main": False}],
        "Routes": [{"NatGatewayId": "nat-1"}],
    }
    return {"RouteTables": [table], "NextToken": None}


def describe_endpoints(account: Account, params: Params) -> Any:
    return {"VpcEndpoints": [{"VpcId": VPC, "ServiceName": "com.amazonaws.eu-central-1.s3"}]}


def describe_groups(account: Account, params: Params) -> Any:
    rule = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": GROUP}]}
    return {"SecurityGroups": [{"GroupId": GROUP, "IpPermissions": [rule]}], "NextToken": None}


def describe_offerings(account: Account, params: Params) -> Any:
    at = int(params.get("NextToken") or 0)
    pages = account.world.pages
    made = [{"InstanceType": n, "Location": "eu-central-1a"} for n in pages[at]]
    more = str(at + 1) if at + 1 < len(pages) else None
    return {"InstanceTypeOfferings": made, "NextToken": more}


# ECR

REPOSITORY = "runspec/job"
REGISTRY = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"


def describe_repositories(account: Account, params: Params) -> Any:
    if not account.world.there or "DeleteRepository" in account.done:
        return aws_models.refusal("ecr", "RepositoryNotFoundException", 400)
    return {"repositories": [{"repositoryName": REPOSITORY}], "nextToken": None}


def describe_images(account: Account, params: Params) -> Any:
    if not account.world.there or "BatchDeleteImage" in account.done:
        return aws_models.refusal("ecr", "ImageNotFoundException", 400)
    return {"imageDetails": [{"imageTags": ["t"]}], "nextToken": None}


# Secrets Manager


def describe_secret(account: Account, params: Params) -> Any:
    if not account.world.there:
        return aws_models.refusal("secretsmanager", "ResourceNotFoundException", 400)
    gone = {"DeletedDate": EARLY} if "DeleteSecret" in account.done else {"DeletedDate": None}
    return {"ARN": SECRET_ARN, "Name": SECRET, **gone}


def list_secrets(account: Account, params: Params) -> Any:
    """Each name of a page is a run that has a secret."""

    def secret(run: str) -> dict[str, Any]:
        own = {"runspec:run": run, "runspec:store": f"s3://{BUCKET}/{PREFIX}"}
        tags = [{"Key": key, "Value": value} for key, value in own.items()]
        return {"Name": f"runspec/{run}/TOKEN", "Tags": tags}

    found = paged(account, params.get("NextToken"), "SecretList", secret)
    return {"SecretList": found["SecretList"], "NextToken": found["nextToken"]}


def said(**truth: Any) -> Truth:
    return lambda account, params: truth


TRUTHS: Mapping[str, Truth] = {
    "DescribeJobs": describe_jobs,
    "ListJobs": list_jobs,
    "SubmitJob": said(jobArn=f"{ARN}:job/{JOB}", jobId=JOB, jobName=RUN),
    "TerminateJob": said(),
    "TerminateJobs": said(successful=[JOB], errors=[]),
    "RegisterJobDefinition": said(
        jobDefinitionName=DEFINITION,
        jobDefinitionArn=f"{ARN}:job-definition/{DEFINITION}:3",
        revision=3,
    ),
    "DeregisterJobDefinition": said(),
    "DescribeJobDefinitions": describe_definitions,
    "CreateComputeEnvironment": said(
        computeEnvironmentName=ENVIRONMENT,
        computeEnvironmentArn=f"{ARN}:compute-environment/{ENVIRONMENT}",
    ),
    "UpdateComputeEnvironment": said(),
    "DeleteComputeEnvironment": said(),
    "DescribeComputeEnvironments": describe_environments,
    "CreateJobQueue": said(jobQueueName=QUEUE, jobQueueArn=f"{ARN}:job-queue/{QUEUE}"),
    "UpdateJobQueue": said(),
    "DeleteJobQueue": said(),
    "DescribeJobQueues": describe_queues,
    "GetLogEvents": get_log_events,
    "CreateRepository": said(repository={"repositoryName": REPOSITORY}),
    "DescribeRepositories": describe_repositories,
    "DeleteRepository": said(),
    "BatchDeleteImage": said(),
    "GetAuthorizationToken": said(authorizationData=[{"authorizationToken": "QVdTOnB3"}]),
    "CreateSecret": said(ARN=SECRET_ARN, Name=SECRET),
    "PutSecretValue": said(ARN=SECRET_ARN, VersionId="v1"),
    "DescribeSecret": describe_secret,
    "DeleteSecret": said(ARN=SECRET_ARN, Name=SECRET),
    "ListSecrets": list_secrets,
    "GetObject": get_object,
    "PutObject": put_object,
    "HeadObject": head_object,
    "HeadBucket": said(),
    "DeleteObject": said(),
    "DeleteObjects": delete_objects,
    "ListObjectsV2": list_objects,
    "ListObjectVersions": list_versions,
    "ListMultipartUploads": list_uploads,
    "ListParts": list_parts,
    "UploadPart": said(ETag='"p"'),
    "CreateMultipartUpload": said(UploadId="u-1", Bucket=BUCKET),
    "CompleteMultipartUpload": said(ETag='"e-1"', Bucket=BUCKET),
    "AbortMultipartUpload": said(),
    "CreatePlacementGroup": said(),
    "DeletePlacementGroup": said(),
    "DescribePlacementGroups": describe_placements,
    "CreateLaunchTemplate": said(LaunchTemplate={"LaunchTemplateName": TEMPLATE}),
    "DeleteLaunchTemplate": said(),
    "DescribeLaunchTemplates": describe_templates,
    "DescribeSubnets": describe_subnets,
    "DescribeRouteTables": describe_routes,
    "DescribeVpcEndpoints": describe_endpoints,
    "DescribeSecurityGroups": describe_groups,
    "DescribeInstanceTypeOfferings": describe_offerings,
    "GetCallerIdentity": said(Arn="arn:aws:iam::123456789012:user/u"),
    "GetRole": said(Role={"RoleName": "r"}),
    "SimulatePrincipalPolicy": said(
        EvaluationResults=[{"EvalActionName": "s3:GetObject", "EvalDecision": "allowed"}]
    ),
    "GetInstanceProfile": said(InstanceProfile={"InstanceProfileName": "r"}),
    "DescribeImages": describe_images,
    "GetServiceQuota": said(Quota={"Value": 1000.0}),
    "DescribeFileSystems": said(
        FileSystems=[
            {
                "FileSystemId": FSX,
                "FileSystemType": "LUSTRE",
                "VpcId": VPC,
                "LustreConfiguration": {"MountName": "abcdwxyz"},
            }
        ]
    ),
}
