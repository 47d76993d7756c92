"""The least permissions that a plan needs, for the user who applies it and for the job itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runspec_aws.infrastructure.built_image import OWN
from runspec_aws.naming import partition
from runspec_aws.options import OWN_GROUP, AwsOptions
from runspec_aws.resources import asks_region
from runspec_aws.store import run_secrets
from runspec_images.image_plan import BUILD
from runspec_jobs.provider import Request, Step, requests_of
from runspec_jobs.provider.job_manifest import list_foreign

VERSION = "2012-10-17"
# Calls that only read; AWS Batch has no resource-level permissions for them.
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsbatch.html
LOOKING = (
    "batch:DescribeComputeEnvironments",
    "batch:DescribeJobDefinitions",
    "batch:DescribeJobQueues",
    "batch:DescribeJobs",
    "batch:ListJobs",
)
PRICES_SID, OWN_ROLE, EXECUTION = "Prices", "OwnRole", "Execution"
# What `runspec doctor` asks beyond that; all of it only reads, and no other command needs it.
DOCTOR = (
    "batch:DescribeComputeEnvironments",
    "batch:DescribeJobQueues",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcEndpoints",
    "ecr:DescribeImages",
    "fsx:DescribeFileSystems",
    "iam:GetInstanceProfile",
    "iam:GetRole",
    "iam:SimulatePrincipalPolicy",
    "servicequotas:GetServiceQuota",
)
# What `runspec prices --update` calls; neither action has resources.
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awspricelist.html
PRICES = ("ec2:DescribeSpotPriceHistory", "pricing:GetProducts")
# operation: the actions it needs, and the kind of resource they apply to.
NEEDED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "create_compute_environment": (
        ("batch:CreateComputeEnvironment", "batch:TagResource"),
        "compute-environment/{computeEnvironmentName}",
    ),
    "update_compute_environment": (
        ("batch:UpdateComputeEnvironment",),
        "compute-environment/{computeEnvironment}",
    ),
    "delete_compute_environment": (
        ("batch:DeleteComputeEnvironment",),
        "compute-environment/{computeEnvironment}",
    ),
    "create_job_queue": (("batch:CreateJobQueue", "batch:TagResource"), "job-queue/{jobQueueName}"),
    "update_job_queue": (("batch:UpdateJobQueue",), "job-queue/{jobQueue}"),
    "delete_job_queue": (("batch:DeleteJobQueue",), "job-queue/{jobQueue}"),
    "register_job_definition": (
        ("batch:RegisterJobDefinition", "batch:DeregisterJobDefinition", "batch:TagResource"),
        "job-definition/{jobDefinitionName}*",
    ),
    "submit_job": (("batch:SubmitJob", "batch:TagResource"), "job*/*"),
}
# Operation: its action, the resource, and the action that finds it, which has no resource. A launch template has an
# id that is not known beforehand.
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
EC2: Mapping[str, tuple[str, str, str]] = {
    "create_placement_group": (
        "ec2:CreatePlacementGroup",
        "placement-group/{GroupName}",
        "ec2:DescribePlacementGroups",
    ),
    "delete_placement_group": (
        "ec2:DeletePlacementGroup",
        "placement-group/{GroupName}",
        "ec2:DescribePlacementGroups",
    ),
    "create_launch_template": (
        "ec2:CreateLaunchTemplate",
        "launch-template/*",
        "ec2:DescribeLaunchTemplates",
    ),
    "delete_launch_template": (
        "ec2:DeleteLaunchTemplate",
        "launch-template/*",
        "ec2:DescribeLaunchTemplates",
    ),
}
OBJECTS = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
)
# An image of a private repository: https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html
PRIVATE = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/(?P<name>[^:@]+)"
)
PUSH = (
    "ecr:BatchDeleteImage",
    "ecr:CompleteLayerUpload",
    "ecr:DescribeImages",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)
# For a repository that runspec makes; one of the profile is somebody else's.
OWN_REPOSITORY = (
    "ecr:CreateRepository",
    "ecr:DeleteRepository",
    "ecr:DescribeRepositories",
    "ecr:TagResource",
)
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


def policy(steps: Iterable[Step], options: AwsOptions) -> dict[str, Any]:
    """Return the policy for a user who applies *steps*, follows the run and destroys it."""
    asked = [r for step in steps for r in (step.do, step.undo) if r is not None]
    requests = [call for request in asked for call in requests_of(request)]
    statements = [
        _statement("Look", LOOKING, ["*"]),
        _statement(PRICES_SID, PRICES, ["*"]),
        *_made(requests, options),
        *_bucket(options),
        *_logs(options),
        *_roles(options),
    ]
    return {"Version": VERSION, "Statement": statements}


def doctor_policy(options: AwsOptions) -> dict[str, Any]:
    """Return the policy for `runspec doctor`, which only reads.

    At a store that is not Amazon's it writes an object as well, and such a store has rights of its own.
    """
    bucket = f"arn:{_partition(options)}:s3:::{options.bucket}"
    statements = [_statement("Doctor", DOCTOR, ["*"]), *([_lists(bucket)] * bool(options.bucket))]
    return {"Version": VERSION, "Statement": statements}


def _statement(
    name: str, actions: Iterable[str], resources: Iterable[str], **more: Any
) -> dict[str, Any]:
    return {
        "Sid": name,
        "Effect": "Allow",
        "Action": sorted(set(actions)),
        "Resource": sorted(set(resources)),
        **more,
    }


def _partition(options: AwsOptions) -> str:
    """Return the partition for ARNs: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html"""
    return partition(options.region or "").id


def _arn(service: str, resource: str, options: AwsOptions) -> str:
    return f"arn:{_partition(options)}:{service}:{options.region}:*:{resource}"


def _made(requests: Iterable[Request], options: AwsOptions) -> Iterator[dict[str, Any]]:
    statements: dict[str, tuple[set[str], set[str]]] = {}
    for request in requests:
        if request.operation in NEEDED:
            needed, resource = NEEDED[request.operation]
            kind = resource.partition("/")[0]
            known = statements.setdefault(kind, (set(), set()))
            known[0].update(needed)
            known[1].add(_arn("batch", resource.format(**_of_any_run(request.params)), options))
    if "job*" in statements:  # a job needs a queue and a definition, and may be terminated
        actions, resources = statements.pop("job*")
        asked = [_of_any_run(r.params) for r in requests]
        names = [params["jobDefinitionName"] for params in asked if "jobDefinitionName" in params]
        queues = [r.params["jobQueueName"] for r in requests if "jobQueueName" in r.params]
        resources = {
            _arn("batch", "job/*", options),
            *(_arn("batch", f"job-definition/{name}*", options) for name in names),
            *(_queue(name, options) for name in queues or [options.queue or ""]),
        }
        yield _statement("Job", {*actions, "batch:TerminateJob"}, resources)
    for kind, (actions, resources) in statements.items():
        yield _statement(kind.title().replace("-", ""), actions, resources)
    yield from _secrets(requests, options)
    yield from _images(requests, options)
    yield from _queued(requests, options)
    yield from _machines(requests, options)


def _of_any_run(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *params* of a definition with the name that it has in any run of the job, if it belongs to one run."""
    own = params.get("tags", {})
    if "jobDefinitionName" not in params or "runspec:run" not in own:
        return params
    return {**params, "jobDefinitionName": f"runspec-{own['runspec:job']}-"}


def _secrets(requests: Iterable[Request], options: AwsOptions) -> Iterator[dict[str, Any]]:
    """https://docs.aws.amazon.com/service-authorization/latest/reference/list_awssecretsmanager.html"""
    if made := _made_secrets(requests, options):
        verbs = ("CreateSecret", "DeleteSecret", "DescribeSecret", "PutSecretValue", "TagResource")
        yield _statement("Secrets", [f"secretsmanager:{verb}" for verb in verbs], made)
        yield _statement("ListSecrets", ["secretsmanager:ListSecrets"], ["*"])


def _images(requests: Iterable[Request], options: AwsOptions) -> Iterator[dict[str, Any]]:
    """https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html"""
    if arns := _repositories(_built(requests), options):
        yield _statement("Registry", ["ecr:GetAuthorizationToken"], ["*"])
        yield _statement("Images", (*PULL, *PUSH), arns)
        if any(request.operation == "create_repository" for request in requests):
            yield _statement("Repository", OWN_REPOSITORY, arns)


def _repositories(images: Iterable[str], options: AwsOptions) -> list[str]:
    """Return the ARNs of the repositories of ECR that *images* are in."""
    found = [each for image in images if (each := PRIVATE.match(image))]
    start = f"arn:{_partition(options)}:ecr"
    return [f"{start}:{i['region']}:{i['account']}:repository/{i['name']}" for i in found]


def _built(requests: Iterable[Request]) -> list[str]:
    return [r.params["image"] for r in requests if r.operation == BUILD]


def _made_secrets(requests: Iterable[Request], options: AwsOptions) -> list[str]:
    names = run_secrets.names(requests)
    return [_arn("secretsmanager", f"secret:{name}", options) for name in names]


def _queued(requests: Iterable[Request], options: AwsOptions) -> Iterator[dict[str, Any]]:
    """Return statements for queues and for their compute environments, which the same call refers to."""
    made = [r for r in requests if r.operation == "create_compute_environment"]
    if made:
        names = [f"compute-environment/{r.params['computeEnvironmentName']}" for r in made]
        arns = [_arn("batch", name, options) for name in names]
        yield _statement("Queued", ["batch:CreateJobQueue"], arns)


def _machines(requests: Iterable[Request], options: AwsOptions) -> Iterator[dict[str, Any]]:
    asked = [(EC2[r.operation], r.params) for r in requests if r.operation in EC2]
    for kind, sid in (("placement-group", "Close"), ("launch-template", "Templates")):
        mine = [(row, params) for row, params in asked if row[1].startswith(kind)]
        if mine:
            arns = [_arn("ec2", row[1].format(**params), options) for row, params in mine]
            yield _statement(sid, [row[0] for row, _ in mine], arns)
    if not options.queue:  # `gc` also finds environments of other plans
        offers = ["ec2:DescribeInstanceTypeOfferings"] if asks_region(options) else []
        yield _statement("LookAtMachines", [*(row[2] for row in EC2.values()), *offers], ["*"])


def _queue(name: str, options: AwsOptions) -> str:
    """Return the ARN of a queue; the profile may contain a name or an ARN."""
    return name if name.startswith("arn:") else _arn("batch", f"job-queue/{name}", options)


def _bucket(options: AwsOptions) -> Iterator[dict[str, Any]]:
    bucket = f"arn:{_partition(options)}:s3:::{options.bucket}"
    versions = ["s3:DeleteObjectVersion"] if options.versioned else []
    yield _statement("Objects", [*OBJECTS, *versions], [f"{bucket}/{options.prefix}/*"])
    yield _lists(bucket)
    if options.versioned:
        yield _statement("Versions", ["s3:ListBucketVersions"], [bucket])
    yield from _key(options)
    yield _statement("Unfinished", ["s3:ListBucketMultipartUploads"], [bucket])


def _key(options: AwsOptions) -> Iterator[dict[str, Any]]:
    """Return the permission to use the key that encrypts the bucket.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html#require-sse-kms
    """
    if options.kms_key:
        yield _statement("Key", ["kms:Decrypt", "kms:GenerateDataKey"], [options.kms_key])


def _lists(bucket: str) -> dict[str, Any]:
    """Return the permission to list, without a condition on the prefix: otherwise missing objects answer 403, not 404.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
    """
    return _statement("Lists", ["s3:ListBucket"], [bucket])


def _logs(options: AwsOptions) -> Iterator[dict[str, Any]]:
    group = _arn("logs", f"log-group:{options.log_group}", options)
    yield _statement("Logs", ["logs:GetLogEvents"], [f"{group}:log-stream:*"])


def _roles(options: AwsOptions) -> Iterator[dict[str, Any]]:
    """Return permissions to pass roles: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html"""
    tasks = [role for role in (options.job_role, options.execution_role) if role]
    if tasks:
        to = {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}
        yield _statement("TaskRoles", ["iam:PassRole"], tasks, Condition=to)
    if options.service_role:
        to = {"StringEquals": {"iam:PassedToService": "batch.amazonaws.com"}}
        yield _statement("ServiceRole", ["iam:PassRole"], [options.service_role], Condition=to)
    elif not options.queue:
        name = "role/aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"
        role = f"arn:{_partition(options)}:iam::*:{name}"
        to = {"StringLike": {"iam:AWSServiceName": "batch.amazonaws.com"}}
        yield _statement(OWN_ROLE, ["iam:CreateServiceLinkedRole"], [role], Condition=to)
    if options.instance_role and not options.queue:
        role = options.instance_role.replace(":instance-profile/", ":role/")
        to = {
            "StringEquals": {
                "iam:PassedToService": f"ec2.amazonaws.com{'.cn' * (_partition(options) == 'aws-cn')}"
            }
        }
        yield _statement("InstanceRole", ["iam:PassRole"], [role], Condition=to)


def job_policy(steps: Iterable[Step], options: AwsOptions) -> dict[str, Any]:
    """Return the policy for `job_role`, with which the job reads inputs and writes outputs.

    Statements whose Sid begins with Execution are for `execution_role`.
    """
    steps = list(steps)
    containers = list_containers(steps)
    statements = [
        *(
            _files(options) if options.files == "role" else ()
        ),  # signed URLs have the permissions of their signer
        *_foreign(list_foreign(steps), options),
        *_targets(list_foreign(steps, written=True), options),
        *(s for container in containers for s in _file_systems(container, options)),
        *_own_group(options),
        *(_execution(steps, options) if options.execution_role else ()),
    ]
    return {"Version": VERSION, "Statement": statements}


def _files(options: AwsOptions) -> Iterator[dict[str, Any]]:
    bucket, prefix = f"arn:{_partition(options)}:s3:::{options.bucket}", options.prefix
    inputs = [f"{bucket}/{prefix}/{name}/*" for name in ("inside", "blobs", "store", "runs")]
    yield _statement("Read", ["s3:GetObject"], inputs)
    outputs = [f"{bucket}/{prefix}/runs/*"]
    yield _statement("Write", ["s3:AbortMultipartUpload", "s3:PutObject"], outputs)
    # A role belongs to the profile and serves every run, so no statement can be limited to one run.
    yield _statement("Delete", ["s3:DeleteObject"], [f"{bucket}/{prefix}/runs/*/outputs/*"])
    yield _lists(bucket)
    yield from _key(options)


def _foreign(urls: Iterable[str], options: AwsOptions) -> Iterator[dict[str, Any]]:
    """Return permissions to read buckets of other owners, whose own policies must permit it too.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/example-walkthroughs-managing-access-example2.html
    """
    places = [url.removeprefix("s3://").rstrip("/") for url in urls if url.startswith("s3://")]
    if places:
        arn = f"arn:{_partition(options)}:s3:::"
        buckets = [arn + place.partition("/")[0] for place in places]
        yield _statement("OthersRead", ["s3:GetObject"], [f"{arn}{place}*" for place in places])
        yield _statement("OthersList", ["s3:ListBucket"], buckets)


def _targets(urls: Iterable[str], options: AwsOptions) -> Iterator[dict[str, Any]]:
    """Return permissions to write outputs to buckets of other owners."""
    places = [url.removeprefix("s3://").rstrip("/") for url in urls if url.startswith("s3://")]
    if places:
        objects = [f"arn:{_partition(options)}:s3:::{place}/*" for place in places]
        yield _statement("OthersWrite", ["s3:AbortMultipartUpload", "s3:PutObject"], objects)


def list_containers(steps: Iterable[Step]) -> list[Mapping[str, Any]]:
    """Return the containers of all job definitions that *steps* register."""
    return [container for step in steps for container in _containers(step.do)]


def _containers(request: Request) -> Iterator[Mapping[str, Any]]:
    if request.operation == "register_job_definition":
        params = request.params
        groups = params.get("nodeProperties", {}).get("nodeRangeProperties", ())
        yield from (group["container"] for group in groups)
        yield from (params[key] for key in ("containerProperties",) if key in params)


def _file_systems(container: Mapping[str, Any], options: AwsOptions) -> Iterator[dict[str, Any]]:
    """Return permissions to mount file systems with IAM; only those that are written need write permission.

    https://docs.aws.amazon.com/efs/latest/ug/access-points-iam-policy.html
    """
    read_only = {m["sourceVolume"] for m in container.get("mountPoints", ()) if m["readOnly"]}
    for n, volume in enumerate(container.get("volumes", ())):
        efs = volume.get("efsVolumeConfiguration", {})
        access = efs.get("authorizationConfig", {})
        if access.get("iam") != "ENABLED":
            continue
        actions = ["elasticfilesystem:ClientMount"]
        if volume["name"] not in read_only:
            actions.append("elasticfilesystem:ClientWrite")
        system = _arn("elasticfilesystem", f"file-system/{efs['fileSystemId']}", options)
        point = _arn("elasticfilesystem", f"access-point/{access['accessPointId']}", options)
        by = {"StringLike": {"elasticfilesystem:AccessPointArn": point}}
        yield _statement(f"Shared{n}", actions, [system], Condition=by)


def _own_group(options: AwsOptions) -> Iterator[dict[str, Any]]:
    """Return permission to create the log group, which the log driver does with the role that writes logs.

    That is `execution_role`, or the machine's role; if it is not also the job's role, it needs this permission.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/using_awslogs.html
    """
    if options.log_group != OWN_GROUP:
        group = _arn("logs", f"log-group:{options.log_group}", options)
        yield _statement("LogGroup", ["logs:CreateLogGroup"], [group, f"{group}:*"])


def _execution(steps: Iterable[Step], options: AwsOptions) -> Iterator[dict[str, Any]]:
    """Return permissions of the execution role: logs, images of private repositories, and secrets, also those made.

    https://docs.aws.amazon.com/batch/latest/userguide/execution-IAM-role.html

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task_execution_IAM_role.html
    """
    requests = [step.do for step in steps]
    containers = [container for request in requests for container in _containers(request)]
    if containers:
        streams = _arn("logs", f"log-group:{options.log_group}:log-stream:*", options)
        yield _statement("ExecutionLogs", ["logs:CreateLogStream", "logs:PutLogEvents"], [streams])
    images = [c["image"] for c in containers if isinstance(c["image"], str)]
    if repositories := _repositories([*images, *_built(requests)], options):
        yield _statement("ExecutionRegistry", ["ecr:GetAuthorizationToken"], ["*"])
        yield _statement("ExecutionImages", PULL, repositories)
    named = [s["valueFrom"] for container in containers for s in container.get("secrets", ())]
    secrets = [name for name in named if isinstance(name, str)]
    kept = [name for name in secrets if ":secretsmanager:" in name]
    logins = [c["repositoryCredentials"] for c in containers if "repositoryCredentials" in c]
    kept += [login["credentialsParameter"] for login in logins]
    kept += _made_secrets(requests, options)
    if kept:
        # The name of a key and a version may follow: .../developerguide/secrets-envvar-secrets-manager.html
        whole = [":".join(name.split(":")[:7]) for name in kept]
        yield _statement("ExecutionSecrets", ["secretsmanager:GetSecretValue"], whole)
    if parameters := [name for name in secrets if name not in kept]:
        arns = [_parameter(name, options) for name in parameters]
        yield _statement("ExecutionParameters", ["ssm:GetParameters"], arns)


def list_own_rights(options: AwsOptions) -> list[dict[str, Any]]:
    """Return what an execution role needs for the secrets and images that runspec makes for any job."""
    secrets = _arn("secretsmanager", f"secret:{run_secrets.ROOT}/*", options)
    images = _arn("ecr", f"repository/{OWN}*", options)
    return [
        _statement("ExecutionOwnSecrets", ["secretsmanager:GetSecretValue"], [secrets]),
        _statement("ExecutionOwnRegistry", ["ecr:GetAuthorizationToken"], ["*"]),
        _statement("ExecutionOwnImages", PULL, [images]),
    ]


def _parameter(name: str, options: AwsOptions) -> str:
    """Return the ARN of a parameter, whose name may begin with a slash.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_awssystemsmanager.html
    """
    return (
        name if name.startswith("arn:") else _arn("ssm", f"parameter/{name.lstrip('/')}", options)
    )
