"""The image that a spec has built: the step that pushes it, and who may push it and pull it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from runspec_azure.batch.decision import PLATFORM, Decision
from runspec_azure.batch.options import BatchOptions
from runspec_azure.session import container_registry
from runspec_images.image_plan import BUILD, parse_name, plan_build, refuse_rehearsal
from runspec_jobs.provider import CredentialsError, Facts, Problem, Spec, Step
from runspec_jobs.provider.paths import read_stored
from runspec_jobs.provider.registry_login import HUB
from runspec_jobs.provider.spec_checks import lacking

if TYPE_CHECKING:
    from runspec_azure.session.clients import Session
    from runspec_images.registry_logins import Login

WHY = "the repository to which images of container.build are pushed"


def problems(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """Yield what hinders the push of an image that *spec* has built."""
    yield from refuse_rehearsal(spec, options.images)
    if spec.container.build is not None and options.images is None:
        yield lacking("azure-batch", "images", "NAME.azurecr.io/REPOSITORY", WHY)


def steps(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the step that builds and pushes the image, unless the registry has it."""
    if decision.built and decision.image:
        yield plan_build(spec, decision.image, PLATFORM, facts)


def list_pushed(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the hosts of Azure Container Registry to which *steps* push."""
    for step in steps:
        if step.do.operation == BUILD:
            host = parse_name(step.do.params["image"]).host
            if container_registry.HOST.fullmatch(host):
                yield host


def login(session: Session, image: str) -> Login | None:
    """Return the login for *image*: that of the profile, or that of Azure; None for what podman or docker have.

    Raises CredentialsError if an Azure Container Registry refuses the login of Azure, and there is no other.
    """
    # With programs and the network, which a plan does without.
    from runspec_images.registry_logins import Login, find_login

    options, host = session.options, parse_name(image).host
    if options.registry_user and host == (options.registry or HUB):
        hint = "the password of the registry"
        return Login(options.registry_user, read_stored(options.registry_password, hint))
    if not container_registry.HOST.fullmatch(host):
        return None
    try:
        return container_registry.log_in(session.login, host)
    except CredentialsError:
        if find_login(host) is None:
            raise
        return None
