"""What can run the image of a spec on a cluster, or stand in for it."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.provider import Facts, Problem, Spec, python_fits
from runspec_slurm import resources
from runspec_slurm.containers import containers
from runspec_slurm.naming import setting
from runspec_slurm.options import SlurmOptions

IMAGE = ("container", "image")
INSIDE = ">=3.6"  # for what runspec runs in the job
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
                "its requirements are installed on the node instead" if buildable else "as it is"
            )
            yield Problem(
                IMAGE, f"{why}: the job runs without the image, {instead}", severity="note"
            )
        else:
            hint = "have podman, Apptainer or Pyxis installed, or give container.requirements"
            yield Problem(IMAGE, why, hint)
    elif there is not None and kind not in there:
        what = f"container: {kind}, and the cluster has no {NAMES[kind]}"
        others = " or ".join(name for name in containers.ORDER if name in there)
        yield Problem(setting(spec, "container"), what, f"set container: {others or 'none'}")
    elif there is None and options.container == "auto":
        what = f"what runs images on the cluster is not known: {kind} is taken; say container in the profile"
        yield Problem(IMAGE, what, severity="note")


def _why_none(spec: Spec, options: SlurmOptions) -> str:
    if options.container == "none":
        return "the profile says container: none"
    if containers.local(spec.container.image or "") and spec.container.requirements is not None:
        return "an image of one machine"
    return "nothing on the cluster runs images"


def _image(spec: Spec, facts: Facts) -> Iterator[Problem]:
    image, kind = spec.container.image or "", containers.engine(spec, facts)
    if containers.is_file(image):
        if kind == "podman":
            what = f"'{image}' is a file, and podman takes images of registries"
            yield Problem(
                IMAGE, what, "push it to a registry, or set container: apptainer or pyxis"
            )
        elif not image.startswith("/"):
            what = f"'{image}' is a file, and nobody knows below which folder of the cluster"
            yield Problem(IMAGE, what, "write its absolute path there")
    elif containers.local(image):
        if kind == "podman" and facts.options.container == "podman":
            what = "an image of one machine: each node has to have it"
            yield Problem(IMAGE, what, severity="note")
        else:
            hint = "push it to a registry, or give container.requirements"
            yield Problem(IMAGE, "no registry has an image named localhost/...", hint)
    if spec.container.requirements is not None:
        what = "installed by the image's python3 at the job's start; it has to have venv or pip"
        yield Problem(("container", "requirements"), what, at="key", severity="note")
    if spec.container.python:
        what = "the image brings its own Python; it ought to be such a version"
        yield Problem(("container", "python"), what, severity="note")
    if kind == "apptainer" and (spec.mounts or spec.outputs):
        what = "no folders can be made at the root of an image there: mounts and outputs are where ${...} says"
        yield Problem(IMAGE, what, severity="note")
    if kind != "podman":
        yield from _shm(spec)


def _nodes_own(spec: Spec, facts: Facts) -> Iterator[Problem]:
    yield from _shm(spec)
    wanted, there = spec.container.python, resources.found(facts).get("python") or ""
    if wanted and not there:
        what = "the node's own Python is taken; it ought to be such a version"
        yield Problem(("container", "python"), what, severity="note")
    elif wanted and not python_fits(there, wanted):
        what = f"'{wanted}', and {facts.options.python} of the cluster is {there}"
        hint = f"name another: providers: {{{spec.provider}: {{python: /PATH/python3}}}}"
        yield Problem(("container", "python"), what, hint)


def _shm(spec: Spec) -> Iterator[Problem]:
    if spec.container.shm:
        what = "the job has the node's own /dev/shm: its size stays as it is"
        yield Problem(("container", "shm"), what, severity="note")


def _python(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Every node starts the job by a Python of its own, also where the program has an image."""
    said, name = resources.found(facts), facts.options.python
    if "python" not in said:
        return
    there, at = said["python"], setting(spec, "python")
    if there is None:
        what = f"python: '{name}' is not there on the cluster, and it starts every job"
        yield Problem(at, what, "name one: python: /PATH/python3")
    elif not python_fits(there, INSIDE):
        what = f"python: '{name}' of the cluster is {there}, and jobs are started by 3.6 or newer"
        yield Problem(at, what, "name a newer one: python: /PATH/python3")
