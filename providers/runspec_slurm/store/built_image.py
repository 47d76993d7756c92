"""The image that a spec has built for a cluster: its name in the registry of the profile, and the step that makes it.

Each engine converts the image for itself when it pulls it, as it does with any other of that registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runspec_images.image_plan import plan_build, refuse_rehearsal
from runspec_jobs.provider import Bundle, Facts, Problem, Progress, Response, Spec, Step
from runspec_jobs.provider.spec_checks import lacking
from runspec_slurm.decision import Decision

WHY = "the repository to which images of container.build are pushed"


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield what hinders the push of an image that *spec* has built."""
    yield from refuse_rehearsal(spec, facts.options.images)
    if spec.container.build is not None and facts.options.images is None:
        yield lacking(spec.provider, "images", "HOST/REPOSITORY", WHY)
    if spec.container.build is not None and facts.options.container == "none":
        message = "the profile has container: none, with which no image is run"
        yield Problem(("container", "build"), message, "remove container: none, or build", at="key")


def steps(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the step that builds and pushes the image, unless the registry has it."""
    if spec.container.build:
        step, login = plan_build(spec, decision.image, decision.platform, facts), decision.login
        params = {**step.do.params, "login": login} if login else step.do.params
        yield step._replace(do=step.do._replace(params=params))


def pin(script: str, named: str, pinned: str) -> str:
    """Return the batch *script* with the image *pinned*, by its digest, in place of *named*, by its tag.

    >>> pin("podman run h.io/a:runspec-1 python3", "h.io/a:runspec-1", "h.io/a@sha256:12")
    'podman run h.io/a@sha256:12 python3'
    """
    return script.replace(named, pinned)


def find(params: Mapping[str, Any]) -> Response | None:
    """Return the name of the image by its digest, if the registry has it.

    The password of a profile's login is known to `build` alone, which asks again.
    """
    from runspec_images.image_build import find_built  # with the network, which a plan does without

    return None if "login" in params else find_built(params["image"], None)


def build(
    params: Mapping[str, Any], bundle: Bundle, tell: Callable[[str], None], progress: Progress
) -> Response:
    """Build the image from *bundle* and push it, unless the registry has it; return its name by its digest."""
    from runspec_images.image_build import build_and_push, find_built
    from runspec_images.registry_logins import Login

    given = params.get("login")
    login = Login(given["user"], given["password"]) if given else None
    there = find_built(params["image"], login) if login else None
    return there or build_and_push(bundle, params, login, tell, progress)
