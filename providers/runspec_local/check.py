"""What this machine cannot do of a spec, each with a way out."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.provider import Capacity, Facts, Problem, Spec, did_you_mean
from runspec_local.supervisor.node import UNMOUNTABLE

READABLE = ("env:", "file:")


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    yield from _machine(spec, facts)
    yield from _places(spec)
    if facts.complete:
        yield from _unused(spec, facts)
        yield from _container(spec, facts)
        yield from _mounts(spec, facts)
        yield from _root(facts)
        yield from _secrets(spec, facts)


def _machine(spec: Spec, facts: Facts) -> Iterator[Problem]:
    if spec.cluster.nodes.elastic and facts.complete and contained(facts):
        what = "nodes in containers do not come and go on this machine"
        hint = f"set providers: {{local: {{engine: process}}}}, or nodes: {spec.cluster.nodes.max}"
        yield Problem(("cluster", "nodes"), what, hint)
    gpus, here = spec.cluster.gpus, facts.survey.get("gpus")
    if gpus and here is not None and here < gpus and not facts.options.without_gpus:
        hint = "take gpus away, or set providers: {local: {without_gpus: true}}"
        yield Problem(("cluster", "gpus"), f"{gpus}, but there are {here} here", hint)
    cpus, here = spec.cluster.cpus, facts.survey.get("cpus")
    if cpus and here and here < cpus * spec.cluster.nodes.max:
        what = f"{spec.cluster.nodes.max} x {cpus}, and there are {here} here: nodes share them"
        yield Problem(("cluster", "cpus"), what, severity="note")
    if spec.cluster.capacity is not Capacity.ON_DEMAND or spec.cluster.pool:
        what = "this machine is yours already: capacity says nothing here"
        yield Problem(("cluster", "capacity"), what, severity="note")


def _unused(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Tell of what is asked for and has no meaning here."""
    if spec.cluster.memory and facts.survey.get("engine") == "process":
        what = "processes share this machine's memory: nothing holds a node to its part"
        yield Problem(("cluster", "memory"), what, severity="note")
    if spec.cluster.disk:
        what = "nodes share this machine's disk: nothing holds a node to its part"
        yield Problem(("cluster", "disk"), what, severity="note")
    if spec.container.shm and facts.survey.get("engine") == "process":
        what = "processes share this machine's /dev/shm: its size stays as it is"
        yield Problem(("container", "shm"), what, severity="note")
    if spec.cluster.placement:
        what = "nodes are all on this machine: placement says nothing here"
        yield Problem(("cluster", "placement"), what, severity="note")


def _places(spec: Spec) -> Iterator[Problem]:
    """Refuse a place that would be another as a part of a path."""
    for i, mount in enumerate(spec.mounts):
        if mount.scheme != "file" and mount.place.startswith("/"):
            hint = f"write {mount.scheme}://{mount.place.lstrip('/') or 'folder'}"
            yield Problem(("mounts", i, "source"), f"'{mount.source}' leaves its root", hint)


def _container(spec: Spec, facts: Facts) -> Iterator[Problem]:
    if "python_problem" in facts.survey:
        what, hint = facts.survey["python_problem"]
        key = "python" if spec.container.python else "requirements"
        yield Problem(("container", key), what, hint)
    if "engine_problem" in facts.survey:
        what, hint = facts.survey["engine_problem"]
        yield Problem(("container", "image"), what, hint)
    elif spec.container.image and facts.survey.get("engine") == "process":
        why = facts.survey["engine_why"]
        if spec.container.requirements is not None or facts.options.engine == "process":
            what = f"{why}: the job runs as processes, without the image"
            yield Problem(("container", "image"), what, severity="note")
        else:
            hint = "install podman, give container.requirements, or set providers.local.engine"
            yield Problem(("container", "image"), f"{why}, so no image can be run", hint)


def _mounts(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Refuse what is to be read and is not there; what may be written is made."""
    for i, mount in enumerate(spec.mounts):
        there = facts.survey.get(mount.scheme, {})
        if mount.read_only and not there.get(mount.place, True):
            what = f"there is nothing at '{mount.source}'"
            hint = f"put the files into {facts.survey['root']}/{mount.scheme}/{mount.place}"
            yield Problem(("mounts", i, "source"), what, hint)
        if set(mount.place) & set(UNMOUNTABLE) and mount.scheme != "file" and contained(facts):
            hint = "rename the folder"
            what = f"no container engine mounts '{mount.source}': a comma or a quote is in it"
            yield Problem(("mounts", i, "source"), what, hint)


def _root(facts: Facts) -> Iterator[Problem]:
    root = facts.survey.get("root", "")
    if contained(facts) and set(root) & set(UNMOUNTABLE):
        hint = "set RUNSPEC_HOME or providers: {local: {root: ...}} to another folder"
        what = f"no container engine mounts '{root}': a comma or a quote is in it"
        yield Problem(("provider",), what, hint)


def contained(facts: Facts) -> bool:
    return bool(facts.survey.get("engine", "process") != "process")


def _secrets(spec: Spec, facts: Facts) -> Iterator[Problem]:
    known = facts.options.secrets
    for variable, name in spec.secrets.items():
        if name not in known:
            hint = did_you_mean(name, known)
            way = (
                f"add providers: {{local: {{secrets: {{{name}: env:{variable}}}}}}} to the profile"
            )
            yield Problem(("secrets", variable), f"the profile has no secret '{name}'", hint or way)
        elif not known[name].startswith(READABLE):
            what = f"nothing reads '{known[name].partition(':')[0]}:' on this machine"
            yield Problem(("secrets", variable), what, "use env:NAME or file:/path on local")
