"""Plan the build of an image, without the network: the name of the image, and the step that pushes it."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Facts, Problem, Request, Scope, Spec, Step, short_hash
from runspec_jobs.provider.job_manifest import CONTEXT
from runspec_jobs.provider.registry_login import HUB, registry_of

REHEARSED = "rehearsal.invalid/images"  # the repository of a rehearsal, which pushes nothing
BUILD = "build_image"  # the operation of the request


class Name(NamedTuple):
    """The parts of the name of an image: `HOST/REPOSITORY:TAG` or `HOST/REPOSITORY@DIGEST`."""

    host: str
    repository: str
    reference: str


def parse_name(image: str) -> Name:
    """Return the parts of *image*.

    >>> parse_name("python")
    Name(host='docker.io', repository='library/python', reference='latest')
    >>> parse_name("localhost:5000/a/b@sha256:12")
    Name(host='localhost:5000', repository='a/b', reference='sha256:12')
    """
    host = registry_of(image)
    rest = image.removeprefix(f"{host}/")
    rest, _, digest = rest.partition("@")
    repository, colon, tag = rest.rpartition(":")
    if not colon:
        repository, tag = rest, "latest"
    if host == HUB and "/" not in repository:
        repository = f"library/{repository}"
    return Name(host, repository, digest or tag)


def is_loopback(host: str) -> bool:
    """Return whether the registry at *host* is asked without TLS, as docker does.

    https://docs.docker.com/reference/cli/dockerd/#insecure-registries
    """
    return host.partition(":")[0] in ("localhost", "127.0.0.1")


def refuse_rehearsal(spec: Spec, repository: str | None) -> Iterator[Problem]:
    """Yield a problem for an image that *spec* has built, if *repository* is that of a rehearsal."""
    if spec.container.build is not None and repository == REHEARSED:
        hint = "add --set container.build= --set container.image=NAME to rehearse with an image"
        message = "a rehearsal builds and pushes no image"
        yield Problem(("container", "build"), message, hint, at="key")


def name_built(repository: str, file: str | None, platform: str, facts: Facts) -> str:
    """Return the name of the image that is built in *repository*, whose tag is a hash of what it is built from."""
    made = {"context": facts.sources[CONTEXT].name, "file": file, "platform": platform}
    return f"{repository}:runspec-{short_hash(made)}"


def plan_build(
    spec: Spec, image: str, platform: str, facts: Facts, undo: Request | None = None
) -> Step:
    """Return the step that builds *image* and pushes it; its answer is `image`, the name with the digest."""
    build, source = spec.container.build, facts.sources[CONTEXT]
    assert build is not None, "BUG: nothing is to be built"
    wanted = {"image": image, "file": build.file, "platform": platform}
    do = Request("registry", BUILD, {**wanted, "context": {"$file": CONTEXT}})
    title = f"build {build.context} ({source.counted}, {source.bytes:,} bytes) and push {image}"
    return Step("image", title, Scope.SITE, do, undo)
