"""Checks of the image and the Python of a spec on a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.provider import Facts, Problem, Spec, python_fits
from runspec_slurm import resources
from runspec_slurm.decision import ENGINES, Decision
from runspec_slurm.naming import is_file, is_local, setting

IMAGE = ("container", "image")
AGENT_PYTHON = ">=3.6"  # the Python that the agent needs
ENROOT_ENDS = set("@# ")  # what ends a user name in enroot's notation of images
NAMES = {"podman": "podman", "apptainer": "Apptainer", "pyxis": "Pyxis"}


def problems(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    if decision.image:
        yield from _engine(decision, spec, facts)
    if decision.is_contained:
        yield from _image(decision, spec)
    else:
        yield from _nodes_own(decision, spec, facts)
    yield from _python(decision, spec, facts)


def _engine(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    engines, preferred = resources.read_cluster(facts).get("containers"), decision.options.container
    buildable = spec.container.requirements is not None
    if not decision.is_contained:
        why = _why_none(decision, buildable)
        if buildable or preferred == "none":
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
    elif engines is not None and decision.engine not in engines:
        what = (
            f"container: {decision.engine} is set, but the cluster has no {NAMES[decision.engine]}"
        )
        others = " or ".join(name for name in ENGINES if name in engines)
        yield Problem(setting(spec, "container"), what, f"set container: {others or 'none'}")
    elif engines is None and preferred == "auto":
        what = (
            f"the container engine of the cluster is unknown: using {decision.engine}, unless the profile sets "
            "container"
        )
        yield Problem(IMAGE, what, severity="note")


def _why_none(decision: Decision, buildable: bool) -> str:
    if decision.options.container == "none":
        return "the profile has container: none"
    if is_local(decision.image) and buildable:
        return "the image exists on one machine only"
    return "the cluster has no container engine"


def _image(decision: Decision, spec: Spec) -> Iterator[Problem]:
    image, engine = decision.image, decision.engine
    if is_file(image):
        if engine == "podman":
            what = f"'{image}' is a file, but podman needs an image in a registry"
            yield Problem(
                IMAGE, what, "push it to a registry, or set container: apptainer or pyxis"
            )
        elif not image.startswith("/"):
            what = f"'{image}' is a relative path, but images on the cluster need an absolute one"
            yield Problem(IMAGE, what, "write the absolute path on the cluster")
    elif is_local(image):
        if engine == decision.options.container == "podman":
            what = "an image that is in no registry: each node must have it"
            yield Problem(IMAGE, what, severity="note")
        else:
            hint = "push it to a registry, or set container.requirements"
            yield Problem(IMAGE, "no registry has an image named localhost/...", hint)
    yield from _login(decision)
    if spec.container.requirements is not None:
        what = "installed when the job starts, by the python3 of the image, which must have venv or pip"
        yield Problem(("container", "requirements"), what, at="key", severity="note")
    if spec.container.python:
        what = "the job uses the Python of the image, which should be such a version"
        yield Problem(("container", "python"), what, severity="note")
    if engine == "apptainer" and (spec.mounts or spec.outputs):
        what = "Apptainer cannot make folders in the root of an image: use ${mounts.NAME} and ${outputs.NAME} as paths"
        yield Problem(IMAGE, what, severity="note")
    if engine != "podman":
        yield from _shm(decision)


def _login(decision: Decision) -> Iterator[Problem]:
    login = decision.login
    if login is None:
        return
    what = (
        "the login at its registry is stored in a file of the workspace until the run is destroyed; "
        "only you and root can read it"
    )
    yield Problem(IMAGE, what, severity="note")
    if decision.engine == "pyxis" and set(login["user"]) & ENROOT_ENDS:
        what = f"enroot cannot log in as '{login['user']}': it has a space, @ or #"
        yield Problem(("provider",), what, "use another registry_user, such as the name of a token")


def _nodes_own(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    yield from _shm(decision)
    wanted, version = spec.container.python, resources.read_cluster(facts).get("python") or ""
    if wanted and not version:
        what = "the job uses the Python of the node, which should be such a version"
        yield Problem(("container", "python"), what, severity="note")
    elif wanted and not python_fits(version, wanted):
        what = f"'{wanted}', but {decision.options.python} of the cluster is {version}"
        hint = f"use another one: providers: {{{spec.provider}: {{python: /PATH/python3}}}}"
        yield Problem(("container", "python"), what, hint)


def _shm(decision: Decision) -> Iterator[Problem]:
    if decision.shm_bytes:
        what = "has no effect: the job uses the /dev/shm of the node"
        yield Problem(("container", "shm"), what, severity="note")


def _python(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield problems with the Python of the nodes, which starts every job, even one with an image."""
    cluster, name = resources.read_cluster(facts), decision.options.python
    if "python" not in cluster:
        return
    version, at = cluster["python"], setting(spec, "python")
    if version is None:
        what = f"the cluster has no '{name}', which starts every job"
        yield Problem(at, what, "set option python: /PATH/python3")
    elif not python_fits(version, AGENT_PYTHON):
        what = f"'{name}' of the cluster is Python {version}, but runspec needs 3.6 or newer"
        yield Problem(at, what, "set option python to a newer one: python: /PATH/python3")
