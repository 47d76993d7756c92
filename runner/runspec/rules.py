"""What must hold between the fields of a spec, whatever the provider."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from runspec.problems import Path, Problem, did_you_mean
from runspec.spec import MAX_TASKS, Launch, Spec
from runspec.words import PLACE, places, variable

RESERVED = "RUNSPEC_"


def broken(spec: Spec) -> Iterator[Problem]:
    """Give every rule that *spec* breaks."""
    yield from _something_to_run(spec)
    yield from _names(spec)
    yield from _targets(spec)
    yield from _environment(spec)
    yield from _places(spec)
    yield from _sweep(spec)
    yield from _launch(spec)


def _something_to_run(spec: Spec) -> Iterator[Problem]:
    if spec.command is not None and spec.run is not None:
        yield Problem(("run",), "both 'command' and 'run' are there", "keep one of them", at="key")
    if spec.command is None and spec.run is None:
        yield Problem((), "nothing to run", "add command: [program, argument] or run: |")
    if spec.command is not None and not spec.command[0]:
        yield Problem(("command", 0), "the program's name is empty")
    for where, text in _texts(spec):
        if "\0" in text:
            yield Problem(where, "a NUL character cannot be part of a command")


def _names(spec: Spec) -> Iterator[Problem]:
    for kind, names in (
        ("mounts", [m.name for m in spec.mounts]),
        ("outputs", [o.name for o in spec.outputs]),
        ("sweep", list(spec.sweep)),
    ):
        seen: dict[str, str] = {}
        for i, name in enumerate(names):
            same = seen.setdefault(variable(kind, name), name)
            where: Path = (kind, name) if kind == "sweep" else (kind, i, "name")
            if same != name:
                yield Problem(where, f"'{name}' and '{same}' are the same variable in the job")
        for name in (name for name, times in Counter(names).items() if times > 1):
            last = len(names) - 1 - names[::-1].index(name)
            yield Problem((kind, last, "name"), f"'{name}' is there twice")


def _targets(spec: Spec) -> Iterator[Problem]:
    folders: list[tuple[Path, str]] = [
        *((("mounts", i, "target"), m.target) for i, m in enumerate(spec.mounts)),
        *((("outputs", i, "path"), o.path) for i, o in enumerate(spec.outputs)),
    ]
    for i, (where, folder) in enumerate(folders):
        for _, other in folders[:i]:
            if f"{folder}/".startswith(f"{other}/") or f"{other}/".startswith(f"{folder}/"):
                yield Problem(where, f"{folder} and {other} lie in each other")
                break


def _environment(spec: Spec) -> Iterator[Problem]:
    for name in spec.env:
        if name.upper().startswith(RESERVED):
            yield Problem(("env", name), f"{RESERVED}* belongs to runspec", "rename it", at="key")
        if name in spec.secrets:
            yield Problem(("secrets", name), f"'{name}' is in env too", "keep one", at="key")
        if "\0" in spec.env[name]:
            yield Problem(("env", name), "a NUL character cannot be part of a variable")
    for name in spec.secrets:
        if name.upper().startswith(RESERVED):
            yield Problem(("secrets", name), f"{RESERVED}* belongs to runspec", at="key")


def _texts(spec: Spec) -> Iterable[tuple[Path, str]]:
    yield from (((("command", i), word)) for i, word in enumerate(spec.command or ()))
    if spec.run is not None:
        yield ("run",), spec.run


def _places(spec: Spec) -> Iterator[Problem]:
    known = {
        "mounts": [m.name for m in spec.mounts],
        "outputs": [o.name for o in spec.outputs],
        "sweep": list(spec.sweep),
    }
    for where, text in _texts(spec):
        for kind, name in places(text):
            if name not in known[kind]:
                hint = did_you_mean(name, known[kind])
                yield Problem(where, f"there is no '{name}' in {kind}", hint)
    for (kind, i), text in _fixed(spec):
        if PLACE.search(text):
            what = "${...} is filled in only in command and run"
            yield Problem((kind, i), what, "the same value is in the job's RUNSPEC_* variables")


def _fixed(spec: Spec) -> Iterator[tuple[tuple[str, str], str]]:
    yield from ((("env", name), value) for name, value in spec.env.items())


def _sweep(spec: Spec) -> Iterator[Problem]:
    count = math.prod(len(values) for values in spec.sweep.values())
    if count > MAX_TASKS:
        what = f"{count:,} tasks, above {MAX_TASKS:,}"
        yield Problem(("sweep",), what, "AWS Batch allows 10,000 in one array", at="key")
    if spec.max_parallel is not None and not spec.sweep:
        yield Problem(("max_parallel",), "there is no sweep to bound", "take it away", at="key")


def _launch(spec: Spec) -> Iterator[Problem]:
    if spec.cluster.nodes.elastic and spec.launch is Launch.MPI:
        what = "an MPI job cannot grow or shrink"
        hint = "set a number of nodes, or launch: torchrun or none"
        yield Problem(("cluster", "nodes"), what, hint)
    if spec.processes_per_node > 1 and spec.launch is Launch.NONE:
        what = "nothing starts several processes a node with launch: none"
        yield Problem(("processes_per_node",), what, "set launch: mpi or torchrun", at="key")
    if spec.cluster.gpu_type is not None and spec.cluster.gpus is None:
        yield Problem(
            ("cluster", "gpu_type"), "a kind of GPU, but no number", "add gpus: 1", at="key"
        )
