"""Find problems of an account that would stop a job on AWS Batch, before anything is created."""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from runspec_aws.decision import MAX_VCPUS, Decision, decide
from runspec_aws.doctor import network, rights
from runspec_aws.errors import LOGIN, got, translated
from runspec_aws.lookup import ENVIRONMENT, QUEUE, asked, described
from runspec_aws.naming import partition
from runspec_aws.options import AwsOptions
from runspec_aws.policy import list_containers
from runspec_aws.resources import find_machines
from runspec_aws.session import Session
from runspec_aws.store.objects import Objects
from runspec_jobs.provider import Facts, Finding, RunspecError, Spec, Step
from runspec_jobs.provider.machines import Machine

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


# The beginnings of the names of instance types whose vCPUs a quota counts, without the number of the generation.
# https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
COUNTED = {
    **dict.fromkeys("a c d h i m r t z".split(), ("on-demand", "spot")),
    **dict.fromkeys(("g", "gr", "vt"), ("on-demand GPU (G and VT)", "spot GPU (G and VT)")),
    "p": ("on-demand GPU (P)", "spot GPU (P4, P3, P2)"),
}
MOST_PLACES = 50


def examine(options: AwsOptions) -> Iterator[Finding]:
    """Yield what exists and what is missing, most important first."""
    session, _ = yield from _log_in(options)
    if session is None:
        return
    yield from _bucket(session, options.prefix)
    yield from _errors_as_findings(_queue(session, options))
    yield from _roles(session, options)
    if options.job_role and options.files == "role":
        yield rights.job_role(session, options)
    yield from _image(session, options.image)
    yield from _errors_as_findings(network.findings(session, options))
    if not options.queue:
        yield from _errors_as_findings(_places(session))
        yield from _quotas(session, options)


def examine_job(spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterator[Finding]:
    """Yield what stops the job of *spec*, whose plan has *steps*, most important first."""
    options: AwsOptions = facts.options
    session, who = yield from _log_in(options)
    if session is None:
        return
    decision = decide(spec, options)
    yield from _bucket(session, options.prefix)
    yield from _errors_as_findings(_queue(session, options))
    yield from _errors_as_findings(rights.caller(session, who, steps, options))
    yield from _roles(session, options)
    yield from _errors_as_findings(rights.roles(session, steps, options))
    for image in sorted(
        {c["image"] for c in list_containers(steps) if isinstance(c["image"], str)}
    ):
        yield from _image(session, image)
    needs = network.NetworkNeeds(
        several_nodes=decision.shape.nodes > 1, types=decision.instance_types
    )
    yield from _errors_as_findings(network.findings(session, options, needs))
    if options.queue:
        message = f"doctor cannot check how many machines queue {options.queue} may start"
        yield Finding(message, True, unknown=True)
        return
    yield from _errors_as_findings(_places(session))
    yield check_quota(session, decision)


def _log_in(options: AwsOptions) -> Generator[Finding, None, tuple[Session | None, str]]:
    """Yield findings about the login, and return a session and the ARN of its caller; None if there can be none."""
    lacking = [key for key in ("region", "bucket") if getattr(options, key) is None]
    for key in lacking:
        yield Finding(f"the profile has no `{key}`", False, "runspec init --provider aws-batch")
    if lacking:
        return None, ""
    try:
        session = Session(options)
        with translated("the identity of the caller"):
            who = str(got(session.look("sts").get_caller_identity(), "Arn"))
    except RunspecError as exc:
        yield Finding(exc.message, False, exc.hint or LOGIN)
        return None, ""
    yield Finding(f"{who} in {options.region}", True)
    return session, who


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
    if options.instance_role and not options.queue:
        name = options.instance_role.rpartition("/")[2]
        look = session.look("iam").get_instance_profile
        hint = "create it with the policy AmazonEC2ContainerServiceforEC2Role"
        good = f"instance_role {name}"
        yield asked(lambda: look(InstanceProfileName=name), good, hint)[0]


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
        message = f"image {image}: not in ECR, so doctor cannot check whether jobs can pull it"
        yield Finding(message, True, unknown=True)
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
            message = f"the quota of {kind} vCPUs cannot be read: {finding.what}"
            yield Finding(message, True, unknown=True)
            continue
        value = int(quota)
        if "GPU" in kind:  # not every account has such a quota, and not every job needs it
            yield Finding(f"the quota of {kind} vCPUs at once is {value:,}", True)
            continue
        hint = f"request an increase, or set max_vcpus: {value}"
        good = value >= (options.max_vcpus or MAX_VCPUS)
        yield Finding(f"the quota of {kind} vCPUs at once is {value:,}", good, hint)


def check_quota(session: Session, decision: Decision) -> Finding:
    """Check that a quota permits the machines of one task; what other jobs use of it is not known."""
    if decision.on_fargate:
        return Finding("doctor cannot check the quotas of Fargate", True, unknown=True)
    machines = [m for name in decision.instance_types for m in find_machines(name)]
    needs: dict[str | None, int] = {}  # the vCPUs by quota; None for one that is not known here
    for machine in machines:
        shape = decision.shape
        vcpus = decision.node.vcpus_of(machine, shape.least_nodes, alone=shape.alone)
        if not vcpus:
            continue  # of a family, the machine is too small
        for kind in (_find_quota(machine, each) for each in decision.environments):
            needs[kind] = min(needs.get(kind, vcpus), vcpus)
    unknown = [] if needs and None not in needs else ["the quota of its machines"]
    short: list[tuple[str, int, int]] = []
    for kind, vcpus in needs.items():
        if kind is None:
            continue
        look = session.look("service-quotas").get_service_quota
        ask = lambda kind=kind, look=look: got(  # noqa: E731
            look(ServiceCode="ec2", QuotaCode=QUOTAS[kind]), "Quota"
        )["Value"]
        finding, value = asked(ask, f"the quota of {kind} vCPUs", "")
        if value is None:
            unknown.append(finding.what)
        elif value >= vcpus:
            needed = f"a task needs {vcpus:,}"
            return Finding(f"the quota of {kind} vCPUs at once is {int(value):,}: {needed}", True)
        else:
            short.append((kind, int(value), vcpus))
    if unknown:
        return Finding(f"doctor cannot check {'; '.join(unknown)}", True, unknown=True)
    kind, has, vcpus = short[0]
    message = f"the quota of {kind} vCPUs at once is {has:,}, and a task needs {vcpus:,}"
    hint = (
        f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {QUOTAS[kind]} "
        f"--desired-value {vcpus}"
    )
    return Finding(message, False, hint)


def _find_quota(machine: Machine, environment: str) -> str | None:
    """Return the quota that counts *machine* in an environment of the kind *environment*, if it is known here."""
    family = machine.name.partition(".")[0]
    of_kind = COUNTED.get(family.rstrip("abcdefghijklmnopqrstuvwxyz-").rstrip("0123456789"))
    if of_kind is None or (environment == "SPOT" and family.startswith(("p5", "p6"))):
        return None  # such as X, Inf and Trn, and P5 on spot, which have quotas of their own
    return of_kind[environment == "SPOT"]
