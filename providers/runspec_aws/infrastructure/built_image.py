"""The image that a spec has built: its repository at ECR, or at a registry of the profile, and the steps to it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from runspec_aws.decision import Decision
from runspec_aws.naming import partition, tags
from runspec_aws.options import AwsOptions
from runspec_images.image_plan import name_built, parse_name, plan_build, refuse_rehearsal
from runspec_jobs.provider import Facts, NoAnswer, Problem, Request, Scope, Spec, Step
from runspec_jobs.provider.job_manifest import CONTEXT

if TYPE_CHECKING:
    from runspec_aws.session import Session
    from runspec_images.registry_logins import Login

# https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html
ECR = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.(com|com\.cn|eu)"
)
ACCOUNT = re.compile(r"arn:[a-z-]+:iam::([0-9]{12}):")
OWN = "runspec/"  # as the names of repositories begin that runspec makes
PLATFORMS = {"arm64": "linux/arm64"}


def problems(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    """Yield what hinders the push of an image that *spec* has built."""
    yield from refuse_rehearsal(spec, options.images)
    if spec.container.build is None:
        return
    at = ("container", "build")
    if repository(spec, options) is None:
        message = "the profile names no account whose ECR gets the image"
        hint = "set images: HOST/REPOSITORY in the profile, or job_role"
        yield Problem(at, message, hint, at="key")
    elif (found := ECR.match(options.images or "")) and found["region"] != options.region:
        message = f"images: {options.images} is not in {options.region}, where the job runs"
        yield Problem(("provider",), message, "name a repository of that region, or remove images")


def repository(spec: Spec, options: AwsOptions) -> str | None:
    """Return the repository of the image: that of the profile, or else one of ECR in the account of the roles."""
    if options.images:
        return options.images
    roles = (options.job_role, options.execution_role, options.instance_role)
    accounts = [found[1] for role in roles if role and (found := ACCOUNT.match(role))]
    if not accounts or options.region is None:
        return None
    host = f"{accounts[0]}.dkr.ecr.{options.region}.{partition(options.region).domain}"
    return f"{host}/{OWN}{spec.name}"


def image(spec: Spec, decision: Decision, facts: Facts) -> str | None:
    """Return the name of the image that *spec* has built, or None. The job names it by the digest of the push."""
    build, where = spec.container.build, repository(spec, facts.options)
    if build is None or where is None or CONTEXT not in facts.sources:
        return None
    return name_built(where, build.file, _platform(decision), facts)


def _platform(decision: Decision) -> str:
    return PLATFORMS.get(decision.machine.architecture or "", "linux/amd64")


def steps(spec: Spec, decision: Decision, facts: Facts) -> Iterator[Step]:
    """Yield the steps that make the repository at ECR, and build and push the image unless the registry has it."""
    named, build = image(spec, decision, facts), spec.container.build
    if named is None or build is None:
        return
    name = parse_name(named)
    undo, where = None, {"repositoryName": name.repository}
    if not facts.options.images:
        own = tags(facts.options, kind="images", job=spec.name)
        listed = [{"Key": key, "Value": value} for key, value in own.items()]
        yield Step(
            "repository",
            f"make the repository {name.repository} at ECR",
            Scope.SITE,
            Request("ecr", "create_repository", {**where, "tags": listed}),
            Request("ecr", "delete_repository", where),
        )
    if at_ecr := ECR.fullmatch(name.host):
        image_id = {"registryId": at_ecr["account"], "imageIds": [{"imageTag": name.reference}]}
        undo = Request("ecr", "batch_delete_image", {**where, **image_id})
    yield plan_build(spec, named, _platform(decision), facts, undo)


def login(session: Session, named: str) -> Login | None:
    """Return the login at ECR by the user's AWS credentials, or None for another registry.

    https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html
    """
    from runspec_aws.errors import got, translated  # with the SDK, which a plan does without
    from runspec_images.registry_logins import Login  # with programs, which a plan does without

    found = ECR.fullmatch(parse_name(named).host)
    if found is None:
        return None
    with translated("get_authorization_token"):
        answer = session.look("ecr").get_authorization_token(registryIds=[found["account"]])
    try:
        token = got(got(answer, "authorizationData")[0], "authorizationToken")
        user, _, password = base64.b64decode(token).decode().partition(":")
    except (IndexError, ValueError):
        user = password = ""
    if not (user and password):
        raise NoAnswer("get_authorization_token: the reply has no login")
    return Login(user, password)
