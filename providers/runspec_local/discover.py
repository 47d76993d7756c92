"""Facts about this machine for a plan."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runspec_jobs.provider import (
    Facts,
    Finding,
    Launch,
    Spec,
    Unavailable,
    UsageError,
    state_folder,
)
from runspec_jobs.provider.registry_login import HUB, registry_of
from runspec_local import plan
from runspec_local.options import LocalOptions
from runspec_local.session import container_engine, gpus
from runspec_namespaces import kernel_support

ENGINES = ("podman", "docker")


def survey(spec: Spec, options: LocalOptions) -> Mapping[str, Any]:
    workspace = root(options)
    survey_facts: dict[str, Any] = {
        "root": workspace,
        "cpus": len(os.sched_getaffinity(0)),
        "store": _places(workspace, "store", spec),
        "shared": _places(workspace, "shared", spec),
    }
    if spec.cluster.disk:
        survey_facts["free_bytes"] = _measure_free(Path(workspace))
    survey_facts |= _engine(spec, options)
    if spec.cluster.gpus:
        survey_facts |= _gpus(survey_facts["engine"])
    elif survey_facts["engine"] == "process":
        survey_facts["hidden_gpus"] = len(gpus.device_files())
    if survey_facts["engine"] == "process":
        if options.namespace is not False:
            survey_facts["unseen"] = kernel_support.unseen(
                plan.tops(spec), gpus=bool(spec.cluster.gpus)
            )
        if spec.container.requirements is not None:
            survey_facts |= _python(spec, options)
    elif survey_facts["engine"] == "podman" and _is_short(spec.container.image):
        survey_facts |= _find_registry(str(spec.container.image))
    return survey_facts


def _is_short(image: str | None) -> bool:
    """Return whether the name of an image has no registry, for which podman then looks in its settings."""
    if image is None or not image[0].isalnum() or "://" in image or "#" in image:
        return False
    return registry_of(image) == HUB and not image.startswith(f"{HUB}/")


def _find_registry(image: str) -> dict[str, Any]:
    try:
        return {"no_registry": True} if container_engine.is_found_nowhere(image) else {}
    except OSError:  # podman cannot be started: another check reports that
        return {}


def _places(root: str, scheme: str, spec: Spec) -> dict[str, bool]:
    """Return for each place that is mounted with *scheme* whether it exists in the folder that the plan uses."""
    places = [mount.place for mount in spec.mounts if mount.scheme == scheme]
    return {name: Path(f"{root}/{scheme}/{name}").is_dir() for name in places}


def root(options: LocalOptions) -> str:
    """Return the folder of the runs and the store. Raise UsageError if `~name` cannot be expanded."""
    if options.root is None:
        return str(state_folder() / "local")
    try:
        return str(Path(options.root).expanduser())
    except RuntimeError as exc:
        hint = "set providers: {local: {root: /a/folder}}"
        raise UsageError(f"root: no such user: cannot expand '{options.root}'", hint) from exc


def _gpus(engine: str) -> dict[str, Any]:
    """Return how many GPUs jobs may use, how they were found, and whether podman can give them to containers."""
    there = gpus.find(os.environ)
    gpu_facts: dict[str, Any] = {"gpus": len(there.gpus), "gpus_how": there.how}
    return {**gpu_facts, "cdi": bool(gpus.cdi_names())} if engine == "podman" else gpu_facts


def _engine(spec: Spec, options: LocalOptions) -> dict[str, Any]:
    """Return the engine to use: the first that works and has the image, or may be able to pull it."""
    image, build = spec.container.image, spec.container.build
    if image is None and build is None:
        return {"engine": "process", "engine_why": "the spec has no image"}
    if options.engine == "process":
        return {"engine": "process", "engine_why": "engine: process"}
    if options.engine != "auto":
        why = container_engine.works(options.engine)
        hint = f"install it, or set providers: {{local: {{engine: auto}}}} ({options.engine} now)"
        problem = {} if why is None else {"engine_problem": [why, hint]}
        return {"engine": options.engine, "engine_why": f"engine: {options.engine}", **problem}
    reasons = []
    for name in ENGINES:
        why = container_engine.works(name) or (_no_image(name, image) if image else None)
        if why is None:
            return {"engine": name, "engine_why": f"{name} works here"}
        reasons.append(why)
    return {"engine": "process", "engine_why": "; ".join(reasons)}


def _no_image(name: str, image: str) -> str | None:
    """Return why the engine cannot run *image*, or None. Images named localhost/... cannot be pulled."""
    if not image.startswith("localhost/"):
        return None
    try:
        return None if container_engine.has_image(name, image) else f"{name} has no image {image}"
    except TimeoutError:
        return f"{name} does not answer"


def _python(spec: Spec, options: LocalOptions) -> dict[str, Any]:
    from runspec_local.session.pythons import find_python  # few specs have requirements
    from runspec_local.session.uv import find_uv

    uv = find_uv()  # without uv no environment can be built, which is not an error of the spec
    try:
        path, version = find_python(uv, spec.container.python, options.python)
    except (Unavailable, UsageError) as exc:
        return {"python_problem": [exc.message, exc.hint]}
    return {"python": {"path": str(path), "version": version}}


def examine(options: LocalOptions) -> Iterator[Finding]:
    """Yield findings about the tools that run jobs on this machine."""
    try:
        yield _writable(Path(root(options)))
    except UsageError as exc:
        yield Finding(exc.message, False, exc.hint)
    yield from _engines(options)
    yield _uv()
    yield _paths()
    there = gpus.find(os.environ)
    yield Finding(f"{len(os.sched_getaffinity(0))} cores, Python {sys.version.split()[0]}", True)
    yield Finding(f"{len(there.gpus)} GPUs ({there.how})", True)


# The program that the agent starts for each launcher, and what brings it.
LAUNCHERS: Mapping[Launch, tuple[str, str]] = {
    Launch.MPI: ("mpirun", "Open MPI or MPICH"),
    Launch.TORCHRUN: ("torchrun", "torch"),
    Launch.HOROVOD: ("horovodrun", "horovod"),
}


def examine_job(spec: Spec, facts: Facts) -> Iterator[Finding]:
    """Yield findings about what the job of *spec* needs on this machine, which `check` has not refused."""
    yield _writable(Path(root(facts.options)))
    engine, image = facts.survey["engine"], spec.container.image
    if engine == "process":
        if image is not None:
            why = facts.survey["engine_why"]
            yield Finding(f"the job runs as processes, without its image: {why}", True)
        yield from _program(spec)
        yield from _launcher(spec)
        yield _paths()
    elif image is not None:
        yield _image(engine, image)
    if spec.container.requirements is not None or spec.container.python is not None:
        yield _uv()
    if spec.cluster.gpus:
        here, how = facts.survey.get("gpus", 0), facts.survey.get("gpus_how")
        yield Finding(f"{here} GPUs ({how}), and each node gets {spec.cluster.gpus}", True)


def _program(spec: Spec) -> Iterator[Finding]:
    """Check that the shell would find the program of a command; a script of the spec finds its own."""
    name = (spec.command or ("",))[0]
    if not name or "/" in name or "$" in name or spec.setup or "PATH" in spec.env:
        return
    if spec.container.requirements is not None:
        return  # the environment has a Python, and the programs of its packages
    there = shutil.which(name)
    what = f"the program {name} is {there}" if there else f"there is no program {name} on PATH"
    yield Finding(what, there is not None, f"install {name}, or write its path in command")


def _launcher(spec: Spec) -> Iterator[Finding]:
    """Check that the agent would find the program of `launch`; requirements and a setup may bring another."""
    own = spec.container.requirements is not None or spec.setup or "PATH" in spec.env
    if own or spec.launch not in LAUNCHERS:
        return
    name, package = LAUNCHERS[spec.launch]
    there, field = shutil.which(name), f"launch: {spec.launch}"
    what = f"{field} uses {there}" if there else f"{field} needs {name}, which is not on PATH"
    yield Finding(what, there is not None, f"install {package}, or name it in requirements")


def _image(engine: str, image: str) -> Finding:
    try:
        if container_engine.has_image(engine, image):
            return Finding(f"{engine} has the image {image}", True)
    except (OSError, TimeoutError) as exc:
        return Finding(f"{engine} does not answer ({exc})", False, f"start {engine}, or wait")
    what = f"{engine} pulls the image {image} when the job starts, which doctor cannot check"
    return Finding(what, True, f"{engine} pull {image}", unknown=True)


def _uv() -> Finding:
    from runspec_local.session.uv import find_uv  # plans do not need it

    try:
        return Finding(f"uv builds environments: {find_uv()}", True)
    except Unavailable as exc:
        return Finding(exc.message, False, exc.hint)


def _engines(options: LocalOptions) -> Iterator[Finding]:
    """Yield a finding about each engine that may run images; one that does not work is a problem if it is asked for."""
    engines = {name: container_engine.works(name) for name in ENGINES}
    for name, why in engines.items():
        if why is None or options.engine == name:
            yield Finding(why or f"{name} works", why is None, why)
    if None not in engines.values() and options.engine not in ENGINES:
        whys = "; ".join(str(why) for why in engines.values())
        yield Finding(f"images run as processes, without a container: {whys}", True)


def _measure_free(root: Path) -> int:
    """Return the free bytes of the file system that has, or will have, the folder *root*."""
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    return shutil.disk_usage(there).free


def _writable(root: Path) -> Finding:
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    free = _measure_free(root) // (1 << 20)
    if not os.access(there, os.W_OK):
        return Finding(f"{there} cannot be written", False, "set RUNSPEC_HOME")
    return Finding(f"{root}: {free:,} MiB free", free > 512, "free some space")


def _paths() -> Finding:
    refused = kernel_support.refusal()
    if refused is None:
        return Finding("processes find mounts and outputs at the paths of the spec", True)
    message = (
        f"processes do not find mounts at the paths of the spec: no mount namespace ({refused})"
    )
    return Finding(message, True, "write ${mounts.NAME} and ${outputs.NAME}")
