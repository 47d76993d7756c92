"""What `runspec_agent`'s signed.sh is told: a list of signed URLs, and what a job that has no more cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.spec.model import Launch, Mount, Spec
from runspec_jobs.spec.placeholders import Axis, axes, tasks, variable

SIGNED_OUTPUTS = 100  # tasks whose outputs one list of URLs is made for

Line = str | list[Any]
"""NAME=VALUE; a list is its parts, of which some are marks such as `{"$signed": ...}`."""


def signed_lines(
    spec: Spec,
    claim: Iterable[Line],
    mount: Callable[[Mount], Iterable[Line]],
    output: Callable[[str, int], Iterable[Line]],
) -> Iterator[Line]:
    """Give the list of *spec* for signed.sh, in which the lines of the service's own places stand.

    *claim* says how a run is claimed, *mount* where the content of a mount is, and *output* where
    an output (its name) of a task (its number) goes.
    """
    yield from claim
    yield f"slots={spec.processes_per_node}"
    if spec.global_batch is not None:
        yield f"batch={spec.global_batch}"
    for one in spec.mounts:
        yield f"mount={variable('mounts', one.name)}"
        yield f"at={one.target}"
        yield from mount(one)
    for axis in reversed(axes(spec.sweep)):
        yield from _swept(axis)
    for made in spec.outputs:
        yield f"output={variable('outputs', made.name)}"
        yield f"at={made.path}"
        for task in range(len(tasks(spec))):
            yield from output(made.name, task)


def _swept(axis: Axis) -> Iterator[str]:
    """Those that go with another have the value of the same place."""
    for i, name in enumerate(axis.names):
        of = variable("sweep", name)
        yield f"with={of}" if i else f"sweep={of} {len(axis.rows)}"
        for row in axis.rows:
            yield f"value={_one_line(row[i])}"


def _one_line(value: str) -> str:
    """Give *value* as printf's %b undoes it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def signed_problems(spec: Spec, hint: str) -> Iterator[Problem]:
    """Give what a shell with signed URLs cannot do anywhere; *hint* is the way out."""
    if spec.launch is not Launch.NONE:
        yield Problem(("launch",), f"{spec.launch} needs Python in the job", hint)
    if spec.cluster.nodes.max > 1:
        what = "several nodes meet through the store, and signed URLs are no way to do so"
        yield Problem(("cluster", "nodes"), what, hint)
    if spec.container.requirements is not None:
        what = "packages are installed by Python, from an agent that signed URLs do not bring"
        yield Problem(("container", "requirements"), what, f"use an image that has them, or {hint}")
    for i, output in enumerate(spec.outputs):
        if output.sync is not None:
            what = "with signed URLs an output is sent once, when the job has ended"
            yield Problem(("outputs", i, "sync"), what, f"take sync away, or {hint}", at="key")
        if output.keep > 1:
            what = "with signed URLs an output is saved once, when the job has ended"
            yield Problem(("outputs", i, "keep"), what, f"take keep away, or {hint}", at="key")
    count = len(tasks(spec)) * spec.cluster.nodes.max
    if spec.outputs and count > SIGNED_OUTPUTS:
        what = f"{count:,} tasks, and outputs are signed for {SIGNED_OUTPUTS} at most"
        yield Problem(("sweep",), what, f"make the sweep smaller, or {hint}", at="key")
