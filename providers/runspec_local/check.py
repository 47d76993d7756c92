"""What this machine cannot do of a spec, each with a way out."""

from __future__ import annotations

from collections.abc import Iterator

from runspec.provider import Capacity, Facts, Problem, Spec, did_you_mean

READABLE = ("env:", "file:")


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    yield from _machine(spec, facts)
    if facts.complete:
        yield from _container(spec, facts)
        yield from _mounts(spec, facts)
        yield from _secrets(spec, facts)


def _machine(spec: Spec, facts: Facts) -> Iterator[Problem]:
    if spec.cluster.nodes.elastic:
        what = "nodes do not come and go on this machine yet"
        yield Problem(("cluster", "nodes"), what, f"set nodes: {spec.cluster.nodes.max}")
    gpus, here = spec.cluster.gpus, facts.survey.get("gpus")
    if gpus and here is not None and here < gpus and not facts.options.without_gpus:
        hint = "take gpus away, or set providers: {local: {without_gpus: true}}"
        yield Problem(("cluster", "gpus"), f"{gpus}, but there are {here} here", hint)
    cpus, here = spec.cluster.cpus, facts.survey.get("cpus")
    if cpus and here and here < cpus * spec.cluster.nodes.max:
        what = f"{spec.cluster.nodes.max} x {cpus}, and there are {here} here: nodes share them"
        yield Problem(("cluster", "cpus"), what, severity="note")
    if spec.cluster.capacity is not Capacity.ON_DEMAND:
        what = "this machine is yours already: capacity says nothing here"
        yield Problem(("cluster", "capacity"), what, severity="note")


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
    stored = facts.survey.get("store", {})
    for i, mount in enumerate(spec.mounts):
        if mount.scheme == "store" and mount.read_only and not stored.get(mount.place, True):
            what = f"there is nothing at '{mount.source}'"
            hint = f"put the files into {facts.survey['root']}/store/{mount.place}"
            yield Problem(("mounts", i, "source"), what, hint)


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
            what = f"'{known[name]}' cannot be read on this machine"
            yield Problem(("secrets", variable), what, "use env:NAME or file:/path on local")
