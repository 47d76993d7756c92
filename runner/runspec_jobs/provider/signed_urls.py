"""Describe jobs with signed URLs for `runspec_agent`'s signed.sh, and find what such jobs cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from runspec_agent.base.program_hooks import LATER
from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.provider.job_manifest import digest_line
from runspec_jobs.provider.payload import strip_usage
from runspec_jobs.provider.types import Source
from runspec_jobs.spec.model import Launch, Spec
from runspec_jobs.spec.models.files import Mount
from runspec_jobs.spec.placeholders import Axis, list_axes, tasks, variable

USAGE_SH = strip_usage()  # read here, because a plan reads nothing from the disk
SIGNED_OUTPUTS = 100  # the most tasks whose outputs one list of URLs can contain

Line = str | list[Any]
"""A line NAME=VALUE, or a list of its parts, some of which are placeholders such as `{"$signed": ...}`."""


def signed_job_lines(
    spec: Spec,
    claim: Iterable[Line],
    mount: Callable[[Mount], Iterable[Line]],
    output: Callable[[str, int], Iterable[Line]],
    usage: Callable[[int], Line],
    end: Callable[[int], Line],
    hidden: int | None = None,
) -> Iterator[Line]:
    """Yield the lines that describe the job of *spec* to signed.sh; the provider supplies those that contain URLs.

    *claim* contains the lines to claim the run. *mount* returns the lines to download a mount, and *output* returns the
    lines to save an output, given its name and the number of its task, *usage* the line to save what a task uses, and
    *end* that for its end record. *hidden* is an exit code of programs that the service must not see.
    """
    yield from claim
    yield f"slots={spec.processes_per_node}"
    if spec.global_batch is not None:
        yield f"batch={spec.global_batch}"
    for mounted in spec.mounts:
        yield f"mount={variable('mounts', mounted.name)}"
        yield f"at={mounted.target}"
        yield from mount(mounted)
    # signed.sh divides the number of the task by the lengths in this order, so the last parameter changes
    # fastest.
    for axis in reversed(list_axes(spec.sweep)):
        yield from _list_sweep_lines(axis)
    for made in spec.outputs:
        yield f"output={variable('outputs', made.name)}"
        yield f"at={made.path}"
        for task in range(len(tasks(spec))):
            yield from output(made.name, task)
    if spec.timeout:
        yield f"limit={spec.timeout}"
    if spec.signal and spec.timeout:
        yield f"signal={spec.timeout - spec.signal.before} {spec.signal.number} {spec.signal.name}"
        yield f"sender={_escape_line(LATER)}"
    if hidden is not None:
        yield f"hidden={hidden}"
    if proves_end(spec):
        yield from map(end, range(len(tasks(spec))))
        yield f"sample={_escape_line(USAGE_SH)}"
        yield from map(usage, range(len(tasks(spec))))


def list_upload_lines(mount: Mount, source: Source, url: Mapping[str, Any]) -> Iterator[Line]:
    """Yield the lines to download *source*, a folder or file of this machine, by the signed *url* of its tar.

    The tar of a file is unpacked into the folder of its target. Where other files are in that folder, signed.sh does
    not compare the file with its digest.
    """
    if source.is_file:
        yield f"at={mount.target.rpartition('/')[0]}"
    yield digest_line(source)
    yield ["get=", url]
    if source.is_file:
        yield f"at={mount.target}"


def proves_end(spec: Spec) -> bool:
    """Return whether each task of a job with signed URLs has one for its end record."""
    return len(tasks(spec)) <= SIGNED_OUTPUTS


def _list_sweep_lines(axis: Axis) -> Iterator[str]:
    """Yield the lines of one factor of a sweep; the other parameters of the factor follow the first one as `with=`."""
    for i, name in enumerate(axis.names):
        env_name = variable("sweep", name)
        yield f"with={env_name}" if i else f"sweep={env_name} {len(axis.rows)}"
        for row in axis.rows:
            yield f"value={_escape_line(row[i])}"


def _escape_line(value: str) -> str:
    """Return *value* escaped for the format %b of printf."""
    # A value with a line break would otherwise look like another line of the list, such as `claim=`.
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _check_outputs(spec: Spec, hint: str) -> Iterator[Problem]:
    for i, output in enumerate(spec.outputs):
        if output.sync is not None:
            message = "with signed URLs an output is saved once, when the job has ended"
            yield Problem(("outputs", i, "sync"), message, f"remove sync, or {hint}", at="key")
        if output.target:
            message = "a job with signed URLs has no identity, and writes to the store of the profile alone"
            yield Problem(("outputs", i, "target"), message, f"remove target, or {hint}", at="key")
        for key in ("include", "exclude"):
            if getattr(output, key):
                message = (
                    "with signed URLs an output is saved by a shell script, which saves all of it"
                )
                yield Problem(("outputs", i, key), message, f"remove {key}, or {hint}", at="key")
        if output.keep > 1:
            message = "with signed URLs an output is saved once, when the job has ended"
            yield Problem(("outputs", i, "keep"), message, f"remove keep, or {hint}", at="key")


def signed_problems(spec: Spec, hint: str) -> Iterator[Problem]:
    """Yield the problems of *spec* if its agent is a shell script with signed URLs; *hint* names an alternative."""
    if spec.launch is not Launch.NONE:
        yield Problem(("launch",), f"{spec.launch} needs Python in the job", hint)
    if spec.cluster.nodes.max > 1:
        message = (
            "the rendezvous of several nodes needs the store, which signed URLs do not support"
        )
        yield Problem(("cluster", "nodes"), message, hint)
    if spec.container.requirements is not None:
        message = (
            "packages are installed by the Python agent, which jobs with signed URLs do not have"
        )
        yield Problem(
            ("container", "requirements"), message, f"use an image that contains them, or {hint}"
        )
    yield from _check_outputs(spec, hint)
    if spec.retry.on:
        message = "which attempts are followed by another one is decided by the Python agent"
        yield Problem(("retry", "on"), message, f"remove on, or {hint}", at="key")
    if spec.max_failed is not None:
        message = "tasks with signed URLs do not see how many others have failed"
        yield Problem(("max_failed",), message, f"remove it, or {hint}", at="key")
    count = len(tasks(spec)) * spec.cluster.nodes.max
    if spec.outputs and count > SIGNED_OUTPUTS:
        message = (
            f"the sweep has {count:,} tasks; outputs can be signed for at most {SIGNED_OUTPUTS}"
        )
        yield Problem(("sweep",), message, f"make the sweep smaller, or {hint}", at="key")
    elif not proves_end(spec):
        message = (
            f"with signed URLs and more than {SIGNED_OUTPUTS} tasks, no task records its end: an image whose "
            "ENTRYPOINT ignores the command looks like a success"
        )
        yield Problem(("sweep",), message, at="key", severity="note")
