"""Problems of a spec that this machine cannot run, each with a hint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runspec_jobs.provider import Capacity, Facts, Path, Problem, Spec
from runspec_jobs.provider.spec_checks import (
    foreign_problems,
    refuse_growth,
    refuse_rules,
    secret_problems,
    too_many_tasks,
)
from runspec_local.naming import UNMOUNTABLE, VISIBLE

GIB = 1 << 30
READABLE = ("env:", "file:")
SCHEMES = {"podman": ("docker",), "docker": ()}  # which an engine takes before the name of an image
MOST_TASKS = 10_000  # each is a process of its own, and one supervisor watches all of them
NOT_OOM = ("no process of a job sees here what the kernel kills", "write exit_codes: [137]")
REFUSED = {
    "oom retry": NOT_OOM,
    "oom stop": NOT_OOM,
    "image retry": ("the image is pulled before the job starts", "remove the entry: repeat apply"),
}
MOST_NODES = 1000  # each is started by itself, and a cancel is seen when all have started


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    yield from _machine(spec, facts)
    yield from _places(spec)
    yield from refuse_rules(spec, REFUSED)
    yield from refuse_growth(spec, "the jobs on this machine share its memory")
    yield from foreign_problems(spec, ("s3",))
    if facts.complete:
        yield from _unused(spec, facts)
        yield from _container(spec, facts)
        yield from _name(spec, facts)
        yield from _mounts(spec, facts)
        yield from _paths(spec, facts)
        yield from _root(facts)
        yield from facts.options.login_problems()
        yield from secret_problems(spec, facts.options, "local", "env:{}", _secret)


def _machine(spec: Spec, facts: Facts) -> Iterator[Problem]:
    yield from too_many_tasks(spec, MOST_TASKS, "this machine runs them all")
    if spec.cluster.nodes.max > MOST_NODES:
        message = f"{spec.cluster.nodes.max:,} nodes, and this machine runs at most {MOST_NODES:,}"
        yield Problem(("cluster", "nodes"), message, "each node is a process of its own here")
    if spec.cluster.nodes.elastic and facts.complete and contained(facts):
        message = "elastic jobs do not run in containers on this machine"
        hint = f"set providers: {{local: {{engine: process}}}}, or nodes: {spec.cluster.nodes.max}"
        yield Problem(("cluster", "nodes"), message, hint)
    if spec.cluster.gpus:
        yield from _gpus(spec, facts)
    elif facts.survey.get("hidden_gpus") and VISIBLE not in spec.env:
        message = "this machine has GPUs, which are hidden from the job: cluster: {gpus: 1} gives each node one"
        yield Problem(("cluster",), message, severity="note")
    cpus, here = spec.cluster.cpus, facts.survey.get("cpus")
    if cpus and here and here < cpus * spec.cluster.nodes.max:
        nodes = spec.cluster.nodes.max
        asked = (
            f"{nodes} nodes ask for {cpus} cores each" if nodes > 1 else f"asks for {cpus} cores"
        )
        message = f"{asked}, and this machine has {here}: the job runs, and may be slower"
        yield Problem(("cluster", "cpus"), message, severity="note")
    if spec.cluster.capacity is not Capacity.ON_DEMAND or spec.cluster.pool:
        message = "`local` ignores capacity: jobs run on this machine"
        yield Problem(("cluster", "capacity"), message, severity="note")


def _gpus(spec: Spec, facts: Facts) -> Iterator[Problem]:
    gpus, nodes, here = spec.cluster.gpus or 0, spec.cluster.nodes.max, facts.survey.get("gpus")
    if spec.cluster.gpu_gib:
        at = ("cluster", "gpu_memory" if spec.cluster.gpu_memory else "gpu_type")
        message = "the job gets the GPUs of this machine, whatever their memory is"
        yield Problem(at, message, severity="note")
    if here is not None and here < gpus * nodes and not facts.options.without_gpus:
        asked = f"{nodes} x {gpus} GPUs, which nodes do not share" if nodes > 1 else f"{gpus} GPUs"
        message = f"the spec asks for {asked}, and this machine has {here}"
        how = f" ({facts.survey['gpus_how']})" if facts.survey.get("gpus_how") else ""
        fewer = f"set nodes: {here // gpus}" if here >= gpus else "remove gpus"
        hint = f"{fewer}, or set providers: {{local: {{without_gpus: true}}}}"
        yield Problem(("cluster", "gpus"), message + how, hint)
    elif here and not facts.survey.get("cdi", True):
        message = (
            "podman cannot give GPUs to containers: there is no CDI specification of nvidia.com/gpu"
        )
        hint = "run sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        yield Problem(("cluster", "gpus"), message, hint)
    if VISIBLE in spec.env:
        message = f"the program sees the GPUs that env.{VISIBLE} names, whichever the node has"
        yield Problem(("env", VISIBLE), message, severity="note")


def _describe_disk(asked: int, facts: Facts) -> str:
    """Return a note about the disk of this machine, of which all nodes *asked* bytes each."""
    free = facts.survey.get("free_bytes")
    if free is not None and asked > free:
        there = f"{facts.survey['root']} has {free / GIB:,.1f} GiB free"
        return f"{asked / GIB:,.1f} GiB, but {there}, which all nodes share: the job may fill it"
    return "nodes share this machine's disk, whatever its kind: no limit is enforced"


def _unused(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield a note for each setting that has no effect on this machine."""
    if spec.cluster.memory and facts.survey.get("engine") == "process":
        message = "processes share this machine's memory: no limit is enforced"
        yield Problem(("cluster", "memory"), message, severity="note")
    if spec.cluster.disk:
        message = _describe_disk(spec.cluster.disk_bytes or 0, facts)
        yield Problem(("cluster", "disk"), message, severity="note")
    if spec.container.shm and facts.survey.get("engine") == "process":
        message = "processes share this machine's /dev/shm, whose size runspec does not change"
        yield Problem(("container", "shm"), message, severity="note")
    if spec.cluster.placement:
        message = "`local` ignores placement: all nodes are on this machine"
        yield Problem(("cluster", "placement"), message, severity="note")


def _places(spec: Spec) -> Iterator[Problem]:
    """Yield a problem for a place with parts such as `..`, which would lead out of its root folder."""
    for i, mount in enumerate(spec.mounts):
        if mount.scheme in ("store", "shared") and mount.place.startswith("/"):
            hint = f"use {mount.scheme}://{mount.place.lstrip('/') or 'folder'}"
            yield Problem(
                ("mounts", i, "source"), f"'{mount.source}' leads out of its root folder", hint
            )


def _container(spec: Spec, facts: Facts) -> Iterator[Problem]:
    if "python_problem" in facts.survey:
        message, hint = facts.survey["python_problem"]
        key = "python" if spec.container.python else "requirements"
        yield Problem(("container", key), message, hint)
    if "engine_problem" in facts.survey:
        message, hint = facts.survey["engine_problem"]
        yield Problem(("container", "image"), message, hint)
    elif spec.container.build and facts.survey.get("engine") == "process":
        hint = "install podman or docker, or set providers: {local: {engine: auto}}"
        message = f"{facts.survey['engine_why']}, so no image can be built"
        yield Problem(("container", "build"), message, hint)
    elif spec.container.entrypoint and facts.survey.get("engine") == "process":
        hint = "set providers: {local: {engine: podman}}, or write command: [program, argument]"
        message = f"{facts.survey['engine_why']}, and without it there is no entrypoint"
        yield Problem(("container", "entrypoint"), message, hint)
    elif spec.container.image and facts.survey.get("engine") == "process":
        why = facts.survey["engine_why"]
        if spec.container.requirements is not None or facts.options.engine == "process":
            message = f"{why}: the job runs as processes, without the image"
            yield Problem(("container", "image"), message, severity="note")
        else:
            hint = (
                "install podman, use container.requirements instead, or set "
                "providers.local.engine to process to run without the image"
            )
            yield Problem(("container", "image"), f"{why}, so no image can be run", hint)


def _name(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield the problem of an image whose name the engine cannot pull."""
    image, engine, at = spec.container.image, facts.survey.get("engine"), ("container", "image")
    if image is None or engine in (None, "process") or "engine_problem" in facts.survey:
        return
    scheme = image.partition("://")[0] if "://" in image else ""
    if not image[0].isalnum():
        message = f"'{image}' is a file, and {engine} runs images of registries"
        yield Problem(at, message, "push it to a registry, or load it and name its tag")
    elif "#" in image or scheme not in ("", *SCHEMES[engine]):
        message = f"'{image}' is written for another container engine than {engine}"
        yield Problem(at, message, "write it as REGISTRY/NAME:TAG")
    elif facts.survey.get("no_registry"):
        message = f"'{image}' names no registry, and the settings of podman have none for it"
        yield Problem(at, message, f"write image: docker.io/{image}", severity="note")


def _mounts(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield problems for read-only mounts that do not exist; folders that may be written are created."""
    for i, mount in enumerate(spec.mounts):
        there = facts.survey.get(mount.scheme, {})
        if mount.read_only and not there.get(mount.place, True):
            message = f"there is no file or folder at '{mount.source}'"
            hint = f"put the files into {facts.survey['root']}/{mount.scheme}/{mount.place}"
            yield Problem(("mounts", i, "source"), message, hint)
        in_place = mount.scheme in ("store", "shared")
        if set(mount.place) & set(UNMOUNTABLE) and in_place and contained(facts):
            hint = "rename the folder"
            message = f"no container engine can mount '{mount.source}': it contains a comma, a quote or a line break"
            yield Problem(("mounts", i, "source"), message, hint)


def _paths(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield a note for each reason why processes do not find mounts and outputs at their paths."""
    if contained(facts):
        return
    reasons: dict[str, list[tuple[str, str, Path]]] = {}
    for path, place, at in _placed(spec):
        why = facts.survey.get("unseen", {}).get(f"/{path.split('/')[1]}")
        if why := why if facts.options.namespace is not False else "namespace is false":
            reasons.setdefault(why, []).append((path, place, at))
    for why, paths in reasons.items():
        missing = ", ".join(path for path, _, _ in paths)
        message = f"processes do not find {missing} here, because {why}"
        hint = f"write {', '.join(place for _, place, _ in paths)}"
        yield Problem(_named_in(spec, paths) or paths[0][2], message, hint, severity="note")


def _placed(spec: Spec) -> Iterator[tuple[str, str, Path]]:
    """Yield the path of each mount and output, the placeholder that stands for it, and where the spec has it."""
    for i, mount in enumerate(spec.mounts):
        yield mount.target, f"${{mounts.{mount.name}}}", ("mounts", i, "target")
    for i, output in enumerate(spec.outputs):
        yield output.path, f"${{outputs.{output.name}}}", ("outputs", i, "path")


def _named_in(spec: Spec, paths: Sequence[tuple[str, str, Path]]) -> Path | None:
    """Return where the program is told one of the paths *paths*, or None."""
    texts: list[tuple[Path, str]] = [(("run",), spec.run or "")]
    texts += [(("command", i), word) for i, word in enumerate(spec.command or ())]
    texts += [(("env", name), value) for name, value in spec.env.items()]
    return next((at for at, text in texts for path, _, _ in paths if path in text), None)


def _root(facts: Facts) -> Iterator[Problem]:
    root = facts.survey.get("root", "")
    if contained(facts) and set(root) & set(UNMOUNTABLE):
        hint = "set RUNSPEC_HOME or providers: {local: {root: ...}} to another folder"
        message = (
            f"no container engine can mount '{root}': it contains a comma, a quote or a line break"
        )
        yield Problem(("provider",), message, hint)


def contained(facts: Facts) -> bool:
    return bool(facts.survey.get("engine", "process") != "process")


def _secret(at: Path, _key: str, source: str) -> Iterator[Problem]:
    if not source.startswith(READABLE):
        message = f"nothing reads '{source.partition(':')[0]}:' on this machine"
        yield Problem(at, message, "use env:NAME or file:/path on local")
