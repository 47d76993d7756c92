"""Find resources by the names that requests gave them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.errors import FORBIDDEN, code_of, got, translated
from runspec_aws.infrastructure import built_image, compute_environments
from runspec_aws.session import Session
from runspec_images.image_build import find_built
from runspec_images.image_plan import BUILD
from runspec_jobs.provider import Finding, RemoteError, Request, Response, RunspecError

LEAVING = ("DELETING", "DELETED")
BUSY = ("CREATING", "UPDATING")
NOTHING = frozenset(
    "404 NoSuchKey NotFound InvalidPlacementGroup.Unknown "
    "InvalidLaunchTemplateName.NotFoundException InvalidLaunchTemplateId.NotFound "
    "ResourceNotFoundException RepositoryNotFoundException ImageNotFoundException".split()
)
Found = Mapping[str, Any] | None
DOCTOR_RIGHTS = "runspec policy --doctor prints the rights that this check needs"


class Kind(NamedTuple):
    """A kind of resource at AWS Batch: the call that describes it, and the keys of its answer."""

    describe: str
    asked: str
    listed: str
    name: str
    arn: str


ENVIRONMENT = Kind(
    "describe_compute_environments",
    "computeEnvironments",
    "computeEnvironments",
    "computeEnvironmentName",
    "computeEnvironmentArn",
)
QUEUE = Kind("describe_job_queues", "jobQueues", "jobQueues", "jobQueueName", "jobQueueArn")


def find(session: Session, do: Request) -> Response | None:
    """Return the answer that *do* would have got, or None if its resource does not exist."""
    return FINDERS[do.operation](session, do.params)


def named(do: Request) -> Response:
    """Return the name of the resource as the answer of a call whose own answer has nothing useful."""
    return {key: do.params[key] for key in NAMES.get(do.operation, ())}


NAMES: Mapping[str, tuple[str, ...]] = {
    "put_object": ("Key",),
    "create_placement_group": ("GroupName",),
    "create_launch_template": ("LaunchTemplateName",),
    "create_repository": ("repositoryName",),
}


def _object(session: Session, params: Mapping[str, Any]) -> Response | None:
    where = {"Bucket": params["Bucket"], "Key": params["Key"]}
    answer = absent(lambda: session.look("s3").head_object(**where), f"look for {params['Key']}")
    return None if answer is None else {"Key": params["Key"]}


def absent(
    ask: Callable[[], Mapping[str, Any]], action: str, codes: frozenset[str] = NOTHING
) -> Found:
    """Return the result of *ask*, or None if the service refuses with one of *codes*, which mean "not found"."""
    try:
        with translated(action):
            return ask()
    except RemoteError as exc:
        if code_of(exc) in codes:
            return None
        raise


def asked(ask: Callable[[], Any], good: str, hint: str) -> tuple[Finding, Any]:
    """Return a finding about *ask*, and its result; None if it was refused.

    What the caller may not see is unknown. A refusal of HEAD is one of the bucket, which jobs need.
    """
    try:
        with translated(good):
            answer = ask()
    except RunspecError as exc:
        if code_of(exc) in FORBIDDEN - {"403"}:
            return Finding(exc.message, True, DOCTOR_RIGHTS, unknown=True), None
        return Finding(exc.message, False, hint), None
    return Finding(good, True), answer


def _placement(session: Session, params: Mapping[str, Any]) -> Response | None:
    names = [params["GroupName"]]
    ask = lambda: session.look("ec2").describe_placement_groups(GroupNames=names)  # noqa: E731
    answer = absent(ask, "look for a placement group")
    groups = () if answer is None else got(answer, "PlacementGroups")
    there = [group for group in groups if group["State"] != "deleted"]
    return {"GroupName": params["GroupName"]} if there else None


def _template(session: Session, params: Mapping[str, Any]) -> Response | None:
    names = [params["LaunchTemplateName"]]
    ask = lambda: session.look("ec2").describe_launch_templates(LaunchTemplateNames=names)  # noqa: E731
    answer = absent(ask, "look for a launch template")
    there = answer is not None and got(answer, "LaunchTemplates")
    return {"LaunchTemplateName": names[0]} if there else None


def described(session: Session, kind: Kind, name: str) -> Found:
    """Return the description of the resource *name*; None if it does not exist or is being deleted.

    A resource that was VALID just now is not requested again, because several steps look for it in turn.
    """
    at, known = session.valid.get((kind.describe, name), (-math.inf, None))
    if session.clock.monotonic() - at < session.timing.fresh_s:
        return known
    thing = any_state(session, kind, name)
    if thing is None or thing.get("status") in LEAVING:
        return None
    if thing.get("status") == "VALID":
        session.valid[kind.describe, name] = (session.clock.monotonic(), thing)
    return thing


def _made(kind: Kind, key: str) -> Callable[..., Response | None]:
    def look(session: Session, params: Mapping[str, Any]) -> Response | None:
        thing = described(session, kind, params[key])
        if thing is None:
            return None
        return {kind.arn: thing[kind.arn], kind.name: thing[kind.name]}

    return look


def _secret(session: Session, params: Mapping[str, Any]) -> Response | None:
    """Return the answer for a secret; one that is being deleted does not exist."""
    name = params["Name"]
    ask = lambda: session.look("secretsmanager").describe_secret(SecretId=name)  # noqa: E731
    answer = absent(ask, "look for a secret")
    if answer is None or answer.get("DeletedDate"):
        return None
    return {"ARN": got(answer, "ARN"), "Name": name}


def _repository(session: Session, params: Mapping[str, Any]) -> Response | None:
    name = params["repositoryName"]
    ask = lambda: session.look("ecr").describe_repositories(repositoryNames=[name])  # noqa: E731
    answer = absent(ask, "look for a repository")
    there = answer is not None and got(answer, "repositories")
    return {"repositoryName": name} if there else None


def _pushed(session: Session, params: Mapping[str, Any]) -> Found:
    answer = absent(lambda: session.look("ecr").describe_images(**params), "look for an image")
    return answer if answer is not None and got(answer, "imageDetails") else None


def _built(session: Session, params: Mapping[str, Any]) -> Response | None:
    """Return the image by its digest, if its registry has the tag, which is a hash of what the image is built from."""
    return find_built(params["image"], built_image.login(session, params["image"]))


def _nothing(_session: Session, _params: Mapping[str, Any]) -> Response | None:
    """Return None: only who has the value could say whether it was stored, and storing it again is right."""
    return None


def definition(session: Session, params: Mapping[str, Any]) -> Response | None:
    """Return any active revision: the name is a hash of the content, so all are equal."""
    with translated("describe_job_definitions"):
        definitions = session.look("batch").describe_job_definitions(
            jobDefinitionName=params["jobDefinitionName"], status="ACTIVE"
        )
        definitions = got(definitions, "jobDefinitions")
    if not definitions:
        return None
    newest = max(definitions, key=lambda definition: definition["revision"])
    return {k: newest[k] for k in ("jobDefinitionArn", "jobDefinitionName", "revision")}


FINDERS: Mapping[str, Callable[[Session, Mapping[str, Any]], Response | None]] = {
    "put_object": _object,
    "create_placement_group": _placement,
    "create_launch_template": _template,
    "create_compute_environment": _made(ENVIRONMENT, "computeEnvironmentName"),
    "create_job_queue": _made(QUEUE, "jobQueueName"),
    "register_job_definition": definition,
    "create_secret": _secret,
    "create_repository": _repository,
    BUILD: _built,
    "put_secret_value": _nothing,
}


def settled(session: Session, do: Request) -> bool:
    """Return whether the resource of *do* can be used. Raise RemoteError if it never will be."""
    for operation, kind, key in (
        ("create_compute_environment", ENVIRONMENT, "computeEnvironmentName"),
        ("create_job_queue", QUEUE, "jobQueueName"),
    ):
        if do.operation == operation:
            thing = described(session, kind, do.params[key])
            if thing is not None and thing["status"] == "INVALID":
                message = (
                    f"{do.params[key]} is invalid: {thing.get('statusReason', 'no reason given')}"
                )
                hint = "remove the cause, delete the resource (`runspec gc` or `destroy --shared`), and apply again"
                raise RemoteError(message, hint)
            return thing is not None and _is_on(session, thing, kind)
    return True


def _is_on(session: Session, thing: Mapping[str, Any], kind: Kind) -> bool:
    """Return whether a resource can be used; one that an interrupted destroy has disabled is enabled again."""
    if thing["status"] != "VALID":
        return False
    if thing["state"] == "ENABLED":
        return True
    session.valid.clear()
    noun, key = (
        compute_environments.ENVIRONMENT if kind is ENVIRONMENT else compute_environments.QUEUE
    )
    with translated(f"update_{noun}"):
        update = getattr(session.look("batch"), f"update_{noun}")
        update(**{key: thing[kind.name], "state": "ENABLED"})
    return False


# For each deleting call: how to find the resource, and in which states it accepts the call.
THINGS: Mapping[str, tuple[Kind, str]] = {
    "update_compute_environment": (ENVIRONMENT, "computeEnvironment"),
    "delete_compute_environment": (ENVIRONMENT, "computeEnvironment"),
    "update_job_queue": (QUEUE, "jobQueue"),
    "delete_job_queue": (QUEUE, "jobQueue"),
}


def undoes(request: Request) -> bool:
    """Return whether *request* undoes a step."""
    off = request.operation.startswith("update") and request.params.get("state") == "DISABLED"
    return off or request.operation.startswith(("delete", "deregister", "batch_delete"))


def there(session: Session, undo: Request) -> bool:
    """Return whether *undo* has something to delete; a resource that is being deleted counts."""
    params, operation = undo.params, undo.operation
    if operation in THINGS:
        return _pending(session, undo) is not None
    if operation == "deregister_job_definition":
        with translated("describe_job_definitions"):
            answer = session.look("batch").describe_job_definitions(
                jobDefinitions=[params["jobDefinition"]]
            )
        return any(d["status"] == "ACTIVE" for d in got(answer, "jobDefinitions"))
    if operation == "batch_delete_image":
        return _pushed(session, params) is not None
    if operation == "delete_repository":
        return _repository(session, params) is not None
    if operation == "delete_secret":
        return _secret(session, {"Name": params["SecretId"]}) is not None
    if operation == "delete_object":
        return _object(session, params) is not None
    look = _placement if operation == "delete_placement_group" else _template
    return look(session, params) is not None


def any_state(session: Session, kind: Kind, name: str) -> Found:
    with translated(kind.describe):
        answer = getattr(session.look("batch"), kind.describe)(**{kind.asked: [name]})
    things = [thing for thing in got(answer, kind.listed) if thing.get("status") != "DELETED"]
    return things[0] if things else None


def busy(session: Session, undo: Request) -> bool:
    """Return whether the resource of *undo* is still changing and would refuse the call."""
    return _status(session, undo) in BUSY


def stays(session: Session, undo: Request) -> bool:
    """Return whether *undo* has something to delete that nobody is deleting.

    The service is asked once: between two descriptions, what is being deleted may go.
    """
    if undo.operation in THINGS:
        thing = _pending(session, undo)
        return thing is not None and thing.get("status") != "DELETING"
    return there(session, undo)


def _pending(session: Session, undo: Request) -> Found:
    """Return what *undo* would change; None if it is gone, or disabled already."""
    kind, key = THINGS[undo.operation]
    thing = any_state(session, kind, undo.params[key])
    off = undo.operation.startswith("update") and thing is not None and thing["state"] == "DISABLED"
    return None if off else thing


def _status(session: Session, undo: Request) -> str | None:
    if undo.operation not in THINGS:
        return None
    kind, key = THINGS[undo.operation]
    thing = any_state(session, kind, undo.params[key])
    return None if thing is None else thing.get("status")
