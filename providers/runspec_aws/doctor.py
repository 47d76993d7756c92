"""Find problems of an account that would stop a job on AWS Batch, before anything is created."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from runspec_aws import doctor_network
from runspec_aws.decision import MAX_VCPUS
from runspec_aws.errors import LOGIN, got, translated
from runspec_aws.lookup import ENVIRONMENT, QUEUE, asked, described
from runspec_aws.naming import partition
from runspec_aws.options import AwsOptions
from runspec_aws.policy import job_policy
from runspec_aws.session import Session
from runspec_aws.store.objects import Objects
from runspec_jobs.provider import Finding, RunspecError

ECR = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.(?P<domain>[a-z0-9.-]+)/"
    r"(?P<name>[^:@]+)([:@](?P<tag>.+))?"
)
# Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances, in vCPUs.
# https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
QUOTAS = {
    "on-demand": "L-1216C47A",
    "spot": "L-34B43A08",
    "on-demand GPU (G and VT)": "L-DB2E81BA",
    "on-demand GPU (P)": "L-417A185B",
    "spot GPU (G and VT)": "L-3819A6DF",
    "spot GPU (P4, P3, P2)": "L-7212CCBC",
}


MOST_PLACES = 50


def examine(options: AwsOptions) -> Iterator[Finding]:
    """Yield what exists and what is missing, most important first."""
    for key in ("region", "bucket"):
        if getattr(options, key) is None:
            yield Finding(f"the profile has no `{key}`", False, "runspec init --provider aws-batch")
    if options.region is None or options.bucket is None:
        return
    try:
        session = Session(options)
        with translated("the identity of the caller"):
            who = got(session.look("sts").get_caller_identity(), "Arn")
    except RunspecError as exc:
        yield Finding(exc.message, False, exc.hint or LOGIN)
        return
    yield Finding(f"{who} in {options.region}", True)
    yield from _bucket(session, options.prefix)
    yield from _errors_as_findings(_queue(session, options))
    yield from _roles(session, options)
    yield from _image(session, options.image)
    yield from _errors_as_findings(doctor_network.findings(session, options))
    if not options.queue:
        yield from _errors_as_findings(_places(session))
        yield from _quotas(session, options)


def _errors_as_findings(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield *findings*, and any error as a finding, so that the other checks continue."""
    try:
        yield from findings
    except RunspecError as exc:
        yield Finding(exc.message, False, exc.hint or "run runspec doctor aws-batch again")


def _bucket(session: Session, prefix: str) -> Iterator[Finding]:
    name = session.bucket
    hint = f"create it (aws s3 mb s3://{name}), or set another bucket in the profile"
    finding, there = asked(
        lambda: session.look("s3").head_bucket(Bucket=name), f"bucket {name}", hint
    )
    yield finding
    if there is not None and not session.on_amazon_s3:
        yield from _errors_as_findings(_conditions(session, prefix))


def _conditions(session: Session, prefix: str) -> Iterator[Finding]:
    """Try conditional writes at a store that is not Amazon's, with an object that is deleted again."""
    files = Objects(session, prefix)
    key = files.key("runs", f"probe-{secrets.token_hex(3)}", "conditions")
    with translated(f"write {key}"):
        session.make("s3").put_object(Bucket=session.bucket, Key=key, Body=b"")
    try:
        files.refuse_without_conditions(key, b"")
    finally:
        files.remove(key)
    yield Finding(f"the store of bucket {session.bucket} has conditional writes", True)


def _queue(session: Session, options: AwsOptions) -> Iterator[Finding]:
    if options.queue is None:
        return
    queue = described(session, QUEUE, options.queue)
    hint = "set an existing queue, or remove queue from the profile so that runspec makes one"
    if queue is None:
        yield Finding(f"there is no queue {options.queue}", False, hint)
    elif (queue["state"], queue["status"]) != ("ENABLED", "VALID"):
        message = f"queue {options.queue} is {queue['state']}, {queue['status']}"
        yield Finding(message, False, queue.get("statusReason") or hint)
    else:
        yield Finding(f"queue {options.queue}: {', then '.join(_kinds(session, queue))}", True)


def _kinds(session: Session, queue: Mapping[str, Any]) -> list[str]:
    """Return the kinds of the compute environments of *queue*, in order: gangs need EC2, and Fargate has no GPUs."""
    ordered = sorted(queue["computeEnvironmentOrder"], key=lambda environment: environment["order"])
    names = [environment["computeEnvironment"] for environment in ordered]
    with translated("describe_compute_environments"):
        answer = session.look("batch").describe_compute_environments(computeEnvironments=names)
    environments = got(answer, "computeEnvironments")
    kinds = {
        e["computeEnvironmentArn"]: e.get("computeResources", {}).get("type") for e in environments
    }
    return [kinds.get(name) or "unmanaged" for name in names]


def _roles(session: Session, options: AwsOptions) -> Iterator[Finding]:
    if options.job_role is None and options.files == "role":
        hint = (
            "create a role for ecs-tasks.amazonaws.com with the policy that `runspec policy --job` prints, "
            "or set files: signed"
        )
        yield Finding("the profile has no `job_role`: jobs cannot access the bucket", False, hint)
    for key in ("job_role", "execution_role", "service_role"):
        if arn := getattr(options, key):
            name = arn.rpartition("/")[2]
            ask = lambda name=name: session.look("iam").get_role(RoleName=name)  # noqa: E731
            yield asked(ask, f"{key} {name}", "create it, or set another one in the profile")[0]
    if options.job_role and options.files == "role":
        yield rights(session, options)
    if options.instance_role and not options.queue:
        name = options.instance_role.rpartition("/")[2]
        look = session.look("iam").get_instance_profile
        hint = "create it with the policy AmazonEC2ContainerServiceforEC2Role"
        good = f"instance_role {name}"
        yield asked(lambda: look(InstanceProfileName=name), good, hint)[0]


def rights(session: Session, options: AwsOptions) -> Finding:
    """Ask IAM whether the job's role has the rights of `runspec policy --job`, which it may not be allowed to tell.

    https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
    """
    lacking: list[str] = []
    look = session.look("iam")
    for statement in job_policy((), options)["Statement"]:
        simulate = partial(
            look.simulate_principal_policy,
            PolicySourceArn=options.job_role,
            ActionNames=statement["Action"],
            ResourceArns=statement["Resource"],
        )
        finding, denied = asked(partial(_denied, simulate), "the rights of job_role", "")
        if denied is None:
            return Finding(f"doctor cannot check the rights of job_role: {finding.what}", True)
        lacking += denied
    if lacking:
        message = f"job_role has no right to {', '.join(sorted(set(lacking)))}"
        return Finding(
            message, False, "add the policy that `runspec policy --job` prints to the role"
        )
    return Finding("job_role has the rights of `runspec policy --job`", True)


def _denied(simulate: Callable[[], Mapping[str, Any]]) -> list[str]:
    results = got(simulate(), "EvaluationResults")
    return [got(r, "EvalActionName") for r in results if got(r, "EvalDecision") != "allowed"]


def _places(session: Session) -> Iterator[Finding]:
    """Count the queues and environments of the region, of which AWS allows 50 each.

    https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
    """
    for kind in (QUEUE, ENVIRONMENT):
        pages = session.look("batch").get_paginator(kind.describe)
        with translated(kind.describe):
            count = sum(len(got(page, kind.listed)) for page in pages.paginate())
        noun = kind.name.removesuffix("Name")
        message = f"the region has {count} of {MOST_PLACES} of kind {noun}"
        hint = "delete those that nobody needs, such as with runspec destroy --shared"
        yield Finding(message, count < MOST_PLACES, hint)


def _image(session: Session, image: str) -> Iterator[Finding]:
    """Look for the profile's image in ECR; other registries can be checked only from a machine."""
    match = ECR.fullmatch(image)
    if match is None or match["domain"] != partition(match["region"]).domain:
        yield Finding(
            f"image {image}: not in ECR, so doctor cannot check whether jobs can pull it", True
        )
        return
    account, name, tag = match["account"], match["name"], match["tag"] or "latest"
    kind = "imageDigest" if tag.startswith("sha256:") else "imageTag"
    look = session.look("ecr").describe_images
    hint = "push it, or set another image in the profile"
    yield asked(
        lambda: look(registryId=account, repositoryName=name, imageIds=[{kind: tag}]),
        f"image {image}",
        hint,
    )[0]


def _quotas(session: Session, options: AwsOptions) -> Iterator[Finding]:
    for kind, code in QUOTAS.items():
        look = session.look("service-quotas").get_service_quota
        ask = lambda look=look, code=code: got(  # noqa: E731
            look(ServiceCode="ec2", QuotaCode=code), "Quota"
        )["Value"]
        finding, quota = asked(ask, f"quota of {kind} vCPUs", "see Service Quotas in the console")
        if quota is None:
            yield Finding(f"the quota of {kind} vCPUs cannot be read: {finding.what}", True)
            continue
        value = int(quota)
        if "GPU" in kind:  # not every account has such a quota, and not every job needs it
            yield Finding(f"the quota of {kind} vCPUs at once is {value:,}", True)
            continue
        hint = f"request an increase, or set max_vcpus: {value}"
        good = value >= (options.max_vcpus or MAX_VCPUS)
        yield Finding(f"the quota of {kind} vCPUs at once is {value:,}", good, hint)
