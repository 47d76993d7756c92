"""Checks of the image and the Python of a spec on a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.provider import Facts, Problem, Spec, python_fits
from runspec_slurm import resources
from runspec_slurm.containers import containers
from runspec_slurm.naming import setting
from runspec_slurm.options import SlurmOptions

IMAGE = ("container", "image")
INSIDE = ">=3.6"  # the Python that the agent needs
ENROOT_ENDS = set("@# ")  # what ends a user name in enroot's notation of images
NAMES = {"podman": "podman", "apptainer": "Apptainer", "pyxis": "Pyxis"}


def contained(spec: Spec, facts: Facts) -> bool:
    return containers.engine(spec, facts) != "none"


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    if spec.container.image:
        yield from _engine(spec, facts)
    if contained(spec, facts):
        yield from _image(spec, facts)
    else:
        yield from _nodes_own(spec, facts)
    yield from _python(spec, facts)


def _engine(spec: Spec, facts: Facts) -> Iterator[Problem]:
    options: SlurmOptions = facts.options
    there = resources.found(facts).get("containers")
    kind = containers.engine(spec, facts)
    buildable = spec.container.requirements is not None
    if kind == "none":
        why = _why_none(spec, options)
        if buildable or options.container == "none":
            instead = (
                "with its requirements installed on the node"
                if buildable
                else "on the node as it is"
            )
            yield Problem(
                IMAGE, f"{why}: the job runs without the image, {instead}", severity="note"
            )
        else:
            hint = (
                "ask for podman, Apptainer or Pyxis to be installed, or set container.requirements"
            )
            yield Problem(IMAGE, why, hint)
    elif there is not None and kind not in there:
        what = f"container: {kind} is set, but the cluster has no {NAMES[kind]}"
        others = " or ".join(name for name in containers.ORDER if name in there)
        yield Problem(setting(spec, "container"), what, f"set container: {others or 'none'}")
    elif there is None and options.container == "auto":
        what = f"the container engine of the cluster is unknown: using {kind}, unless the profile sets container"
        yield Problem(IMAGE, what, severity="note")


def _why_none(spec: Spec, options: SlurmOptions) -> str:
    if options.container == "none":
        return "the profile has container: none"
    if containers.local(spec.container.image or "") and spec.container.requirements is not None:
        return "the image exists on one machine only"
    return "the cluster has no container engine"


def _image(spec: Spec, facts: Facts) -> Iterator[Problem]:
    image, kind = spec.container.image or "", containers.engine(spec, facts)
    if containers.is_file(image):
        if kind == "podman":
            what = f"'{image}' is a file, but podman needs an image in a registry"
            yield Problem(
                IMAGE, what, "push it to a registry, or set container: apptainer or pyxis"
            )
        elif not image.startswith("/"):
            what = f"'{image}' is a relative path, but images on the cluster need an absolute one"
            yield Problem(IMAGE, what, "write the absolute path on the cluster")
    elif containers.local(image):
        if kind == "podman" and facts.options.container == "podman":
            what = "an image that is in no registry: each node must have it"
            yield Problem(IMAGE, what, severity="note")
        else:
            hint = "push it to a registry, or set container.requirements"
            yield Problem(IMAGE, "no registry has an image named localhost/...", hint)
    yield from _login(spec, facts)
    if spec.container.requirements is not None:
        what = "installed when the job starts, by the python3 of the image, which must have venv or pip"
        yield Problem(("container", "requirements"), what, at="key", severity="note")
    if spec.container.python:
        what = "the job uses the Python of the image, which should be such a version"
        yield Problem(("container", "python"), what, severity="note")
    if kind == "apptainer" and (spec.mounts or spec.outputs):
        what = "Apptainer cannot make folders in the root of an image: use ${mounts.NAME} and ${outputs.NAME} as paths"
        yield Problem(IMAGE, what, severity="note")
    if kind != "podman":
        yield from _shm(spec)


def _login(spec: Spec, facts: Facts) -> Iterator[Problem]:
    login = containers.login(spec, facts)
    if login is None:
        return
    what = (
        "the login at its registry is stored in a file of the workspace until the run is destroyed; "
        "only you and root can read it"
    )
    yield Problem(IMAGE, what, severity="note")
    if containers.engine(spec, facts) == "pyxis" and set(login["user"]) & ENROOT_ENDS:
        what = f"enroot cannot log in as '{login['user']}': it has a space, @ or #"
        yield Problem(("provider",), what, "use another registry_user, such as the name of a token")


def _nodes_own(spec: Spec, facts: Facts) -> Iterator[Problem]:
    yield from _shm(spec)
    wanted, there = spec.container.python, resources.found(facts).get("python") or ""
    if wanted and not there:
        what = "the job uses the Python of the node, which should be such a version"
        yield Problem(("container", "python"), what, severity="note")
    elif wanted and not python_fits(there, wanted):
        what = f"'{wanted}', but {facts.options.python} of the cluster is {there}"
        hint = f"use another one: providers: {{{spec.provider}: {{python: /PATH/python3}}}}"
        yield Problem(("container", "python"), what, hint)


def _shm(spec: Spec) -> Iterator[Problem]:
    if spec.container.shm:
        what = "has no effect: the job uses the /dev/shm of the node"
        yield Problem(("container", "shm"), what, severity="note")


def _python(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield problems with the Python of the nodes, which starts every job, even one with an image."""
    said, name = resources.found(facts), facts.options.python
    if "python" not in said:
        return
    there, at = said["python"], setting(spec, "python")
    if there is None:
        what = f"the cluster has no '{name}', which starts every job"
        yield Problem(at, what, "set option python: /PATH/python3")
    elif not python_fits(there, INSIDE):
        what = f"'{name}' of the cluster is Python {there}, but runspec needs 3.6 or newer"
        yield Problem(at, what, "set option python to a newer one: python: /PATH/python3")
