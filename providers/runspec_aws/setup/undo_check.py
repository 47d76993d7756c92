"""Find what keeps a setup from being undone: what jobs have stored, and what uses its roles and its network.

AWS deletes a role that others use, without a word, so that every later job of theirs fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from runspec_aws.errors import got, translated
from runspec_aws.lookup import LEAVING
from runspec_aws.session import Session
from runspec_aws.setup.finders import Place
from runspec_jobs.provider import Conflict, Request

WITH_DATA = "to delete these too, add --with-data"
OTHERS = "runs of another machine may need these; delete them first, there: runspec destroy --all, then --shared"
SHOWN = 3  # names of one message
# By operation: the parameter with the name of what it deletes, and what that is.
DATA: Mapping[str, tuple[str, str]] = {
    "delete_bucket": ("Bucket", "the bucket {} has objects"),
    "delete_log_group": ("logGroupName", "the log group {} has logs"),
    "delete_repository": ("repositoryName", "the repository {} has images"),
}
USED: Mapping[str, tuple[str, str]] = {
    "delete_role": ("RoleName", "role"),
    "delete_instance_profile": ("InstanceProfileName", "instance profile"),
    "delete_security_group": ("GroupId", "security group"),
    "delete_subnet": ("SubnetId", "subnet"),
}
ROLES = frozenset({"jobRoleArn", "executionRoleArn", "taskRoleArn"})


def list_conflicts(place: Place, requests: Sequence[Request], *, with_data: bool) -> list[Conflict]:
    """Return why *requests*, which delete what a setup has made, must not be sent."""
    conflicts = [c for request in requests if (c := find_data(place, request))]
    if with_data:  # which deletes no images
        conflicts = [c for c in conflicts if c.hint != WITH_DATA]
    used = [request for request in requests if request.operation in USED]
    users = list(_list_users(place.session)) if used else []
    for request in used:
        key, what = USED[request.operation]
        name = request.params[key]
        names = sorted(user for user, needs in users if name in needs)
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            shown = ", ".join(names[:SHOWN])
            conflicts.append(Conflict(f"the {what} {name} is used by {shown}{more}", OTHERS))
    return conflicts


def refuse(conflict: Conflict | None) -> None:
    if conflict is not None:
        raise conflict


def find_data(place: Place, request: Request) -> Conflict | None:
    """Return the Conflict if what *request* deletes holds what somebody has stored."""
    if request.operation not in DATA:
        return None
    name = request.params[DATA[request.operation][0]]
    with translated(f"look into {name}"):
        holds = HOLDS[request.operation](place.session, name)
    return make_conflict(request) if holds else None


def make_conflict(request: Request) -> Conflict:
    key, message = DATA[request.operation]
    name = request.params[key]
    if request.operation == "delete_repository":
        hint = f"delete them first: aws ecr delete-repository --force --repository-name {name}"
        return Conflict(message.format(name), hint)
    return Conflict(f"{message.format(name)}, and stays", WITH_DATA)


def _has_objects(session: Session, name: str) -> bool:
    page = session.look("s3").list_object_versions(Bucket=name, MaxKeys=1)
    return bool(page.get("Versions") or page.get("DeleteMarkers"))


HOLDS: Mapping[str, Callable[[Session, str], bool]] = {
    "delete_bucket": _has_objects,
    "delete_log_group": lambda session, name: bool(
        got(
            session.look("logs").describe_log_streams(logGroupName=name, limit=1),
            "logStreams",
        )
    ),
    "delete_repository": lambda session, name: bool(
        got(session.look("ecr").list_images(repositoryName=name, maxResults=1), "imageIds")
    ),
}


def _list_users(session: Session) -> Iterator[tuple[str, set[str]]]:
    """Yield each compute environment and job definition, with the names of roles and of parts of a network it uses.

    https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html
    https://docs.aws.amazon.com/batch/latest/APIReference/API_JobDefinition.html
    """
    for environment in _list_all(session, "describe_compute_environments", "computeEnvironments"):
        if environment.get("status") in LEAVING:
            continue
        resources = environment.get("computeResources") or {}
        roles = (environment.get("serviceRole"), resources.get("instanceRole"))
        needs = {_name(role) for role in roles if role}
        # An instance profile of a setup has the name of its role.
        needs |= {*resources.get("subnets", ()), *resources.get("securityGroupIds", ())}
        yield f"compute environment {environment['computeEnvironmentName']}", needs
    listed = _list_all(session, "describe_job_definitions", "jobDefinitions", status="ACTIVE")
    for definition in listed:
        name = f"{definition['jobDefinitionName']}:{definition['revision']}"
        yield f"job definition {name}", {_name(role) for role in _list_roles(definition)}


def _list_all(session: Session, operation: str, key: str, **only: str) -> Iterator[Any]:
    pages = session.look("batch").get_paginator(operation)
    with translated(operation):
        for page in pages.paginate(**only):
            yield from got(page, key)


def _name(arn: str) -> str:
    """Return the name of a role or an instance profile, which both have no path where a setup makes them.

    >>> _name("arn:aws:iam::111122223333:role/runspec-job-eu-central-1")
    'runspec-job-eu-central-1'
    """
    return arn.rpartition("/")[2]


def _list_roles(value: Any) -> Iterator[str]:
    """Yield the roles in a job definition, of which jobs of several nodes have one for each group of nodes."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in ROLES and isinstance(inner, str):
                yield inner
            else:
                yield from _list_roles(inner)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _list_roles(item)
