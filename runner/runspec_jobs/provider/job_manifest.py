"""The layout of an object store for jobs, and the record that tells the agent what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from runspec_agent.base import limits
from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs import record_formats
from runspec_jobs.errors import NoAnswer
from runspec_jobs.provider.steps import Step
from runspec_jobs.provider.types import PARTS, Facts, SavedOutput, Source, copy_name
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.models.files import Mount
from runspec_jobs.spec.placeholders import SMOKE, Axis, list_axes

FORMAT = "runspec.run/v1"
PARTED_FORMAT = (
    "runspec.run/v2"  # of a sweep in several jobs, of which older versions know the first alone
)
OUTPUT_TAR = ".runspec/output.tar"  # the key, below the prefix of an output, of an output that was saved as one tar


# After a timeout: the grace period of the program, and the time to save what it has written.
KEPT_S = limits.SERVICE_GRACE_S + limits.SAVE_S


def limit_s(spec: Spec) -> int | None:
    """Return the limit for the service on an attempt: the agent keeps `timeout` itself, and saves before that.

    >>> limit_s(Spec(apiVersion="runspec/v1", name="a", provider="local", run="x", timeout="1h"))
    3740
    """
    return spec.timeout + KEPT_S if spec.timeout else None


def blob_name(source: Source) -> str:
    """Return the name of the tar of a folder; it is the digest of the content, so that equal folders are uploaded once.

    >>> blob_name(Source("sha256:ab12", files=1, bytes=2))
    'ab12.tar'
    >>> blob_name(Source("sha256-parts:ab12", files=1, bytes=2))
    'ab12.parts.tar'
    """
    return f"{source.name}.parts.tar" if source.digest.startswith(PARTS) else f"{source.name}.tar"


class Upload(NamedTuple):
    """A folder that is uploaded before a job starts: the name of its source, what it is for people, and the source."""

    name: str
    content: str
    source: Source


# The source in `Facts` that is the context of `container.build`; no mount has such a name.
CONTEXT = ".build"
RECIPES = ("Containerfile", "Dockerfile")  # the first that the context has builds its image


def uploads(spec: Spec, facts: Facts) -> Iterator[Upload]:
    """Yield the folders to upload: those of mounts, and the saves of another run that are copied to this store."""
    for mount in spec.mounts:
        if mount.scheme == "file":
            yield Upload(mount.name, mount.source, facts.sources[mount.name])
        elif mount.scheme == "run" and mount.name in facts.sources:
            saved = facts.outputs[mount.name]
            content = f"output {saved.output} of {saved.run}"
            yield Upload(mount.name, content, facts.sources[mount.name])
    resume = facts.resume
    if resume is None or not resume.copied:
        return
    for part in resume.parts:
        task, node = part.split("/")
        content = f"saves of {resume.run}, task {task}, node {node}"
        yield Upload(copy_name(part), content, facts.sources[copy_name(part)])


def blob_key(source: Source) -> str:
    """Return the key of the tar of a folder."""
    return f"blobs/{blob_name(source)}"


def resumed(facts: Facts, place: Callable[[Source], str] = blob_key) -> dict[str, Any]:
    """Return the field of a record from which `runspec_agent.transfer.resume` restores outputs, if there is any.

    *place* returns the key of the tar of a copy, or on this machine the path of its folder.
    """
    resume = facts.resume
    if resume is None:
        return {}
    record: dict[str, Any] = {"run": resume.run, "saves": resume.saves}
    if resume.copied:
        record["from"] = {part: place(facts.sources[copy_name(part)]) for part in resume.parts}
    return {"resume": record}


def digest_line(source: Source) -> str:
    """Return the line of the list of signed.sh that has the digest of a folder.

    >>> digest_line(Source("sha256:ab12", files=1, bytes=2))
    'sum=ab12'
    """
    return f"{'parts' if source.digest.startswith(PARTS) else 'sum'}={source.name}"


def job_record(spec: Spec, run: str, facts: Facts, **more: Any) -> dict[str, Any]:
    """Return the record at `runs/RUN/record.json`, which `runspec_agent.job.agent` reads.

    *more* depends on the service: `shape` (single, array or nodes), `tries` (the number of attempts of one node),
    `spot` (the preemption watcher that hears when the machine is reclaimed; true is that of EC2), `stops` (the exit
    code that ends a whole sweep, which no program may use), `ends` (whether each node records how it has ended, or
    `signed`: see `node_ends`), `stop_s` (the seconds between two checks of a task whether it was stopped, if the
    service cannot stop it), `repeats_stopped` (true if the service would start such a task again after the usual exit
    code), `repeats_killed` (true if it starts a task again after the exit code 137, which the agent then uses for no
    last attempt), and values for the provider's own client. Keys are relative to the prefix of the profile.
    """
    return {
        "format": FORMAT,
        "run": run,
        "nodes": spec.cluster.nodes.max,
        "slots": spec.processes_per_node,
        "launch": str(spec.launch),
        "attempts": spec.retry.attempts,
        "timeout_s": spec.timeout,
        # Only where the agent reads it: the digests of all other plans stay as they were.
        **({"limit_s": limit_s(spec)} if more.get("ends") and spec.timeout else {}),
        "sweep": [_write_axis(axis) for axis in list_axes(spec.sweep)],
        "mounts": [_mount(mount, facts) for mount in spec.mounts],
        "outputs": kept_outputs(spec),
        "requirements": list(facts.requirements),
        "build_constraints": list(spec.container.build_constraints),
        **({"conda": True} if spec.container.conda else {}),
        **_make_optional_fields(spec),
        **resumed(facts),
        **(_list_needs(facts) if more.get("ends") is True else {}),
        **more,
    }


def _list_needs(facts: Facts) -> dict[str, Any]:
    """Return the field of a record with the runs that must have succeeded, for which the service waits.

    `runspec_agent.transfer.parent_runs` compares their end records with what the service says.
    """
    runs = [
        {"run": parent.run, **({"paired": True} if parent.paired else {})}
        for parent in facts.parents
        if parent.condition == "succeeded"
    ]
    return {"needs": runs} if runs else {}


def read_record(content: bytes, what: str) -> dict[str, Any]:
    """Parse the record of a run from its store; *what* names it in messages.

    Raises Newer if a newer version wrote it, and NoAnswer if it cannot be parsed, as it may be incomplete.
    """
    try:
        record: dict[str, Any] = json.loads(content)
    except ValueError as exc:
        raise NoAnswer(f"the record of the run cannot be read: {exc}") from exc
    if not isinstance(record, dict) or record.get("format") != PARTED_FORMAT:
        record_formats.check(record, FORMAT, what)
    return record


def kept_outputs(spec: Spec) -> list[dict[str, Any]]:
    """Return the outputs for the record, with `from` and `keep` only where they differ from the default."""
    nodes = spec.cluster.nodes
    # The default depends on the shape of the job, as it does in the agent.
    always = "first" if nodes.elastic else "all"
    return [
        {
            "name": o.name,
            "path": o.path,
            "sync_s": o.sync,
            **({"from": o.origin} if nodes.max > 1 and o.origin not in (None, always) else {}),
            **({"keep": o.keep} if o.keep > 1 else {}),
            **({"target": o.target} if o.target else {}),
            **({"include": list(o.include)} if o.include else {}),
            **({"exclude": list(o.exclude)} if o.exclude else {}),
        }
        for o in spec.outputs
    ]


def _make_optional_fields(spec: Spec) -> dict[str, Any]:
    """Return the fields that only some jobs have, so that the records of other jobs do not change."""
    fields: dict[str, Any] = dict(spec.retry.rules)
    if spec.max_failed is not None:
        fields["max_failed"] = spec.max_failed
    if spec.global_batch is not None:
        fields["global_batch"] = spec.global_batch
    if spec.signal is not None:
        fields["signal"] = {"name": spec.signal.name, "before_s": spec.signal.before}
    if spec.cluster.nodes.elastic:
        fields["elastic"] = {"min": spec.cluster.nodes.min, "max": spec.cluster.nodes.max}
    return fields


def reach(spec: Spec, rule: str) -> dict[str, Any]:
    """Return the fields that make the nodes of a smoke test check that they reach each other, and that GPUs answer.

    *rule* is the advice if nodes do not reach each other, such as to check a security group. Only smoke tests have
    these fields.
    """
    fields: dict[str, Any] = {}
    if SMOKE in spec.env and spec.cluster.nodes.max > 1:
        fields["reach"] = rule
    if SMOKE in spec.env and spec.cluster.gpus:
        fields["check_gpus"] = spec.cluster.gpus
    return fields


def _write_axis(axis: Axis) -> list[Any]:
    """Return a parameter and its values, or several parameters that go together and their rows of values."""
    if len(axis.names) == 1:
        return [axis.names[0], [value for (value,) in axis.rows]]
    return [list(axis.names), [list(row) for row in axis.rows]]


def saves(output: SavedOutput, *, copied: bool = False) -> dict[str, Any]:
    """Return the fields of a mount that is *output*, as `runspec_agent.transfer.run_output` reads them.

    `tasks` and `nodes` are there if their files lie in folders `task-N` and `node-N`, and `same` if each task reads
    those of its own number. If the output is *copied*, the keys are those in the copy.
    """
    return {
        "run": output.run,
        "key": "" if copied else f"runs/{output.run}/outputs/{output.output}/",
        "task": output.task or 0,
        **({"same": True} if output.same else {}),
        **({"tasks": output.tasks} if _is_of_all(output) else {}),
        **({"nodes": output.nodes} if output.nodes > 1 else {}),
    }


def _is_of_all(output: SavedOutput) -> bool:
    return output.task is None and not output.same and output.tasks > 1


def _mount(mount: Mount, facts: Facts) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": mount.name, "target": mount.target}
    if mount.scheme == "file":
        source = facts.sources[mount.name]
        file = {"file": True} if source.is_file else {}
        return {**fields, "kind": "tar", "key": blob_key(source), **file}
    if mount.scheme == "store":
        return {**fields, "kind": "prefix", "key": f"store/{mount.place.strip('/')}/"}
    if mount.scheme == "run":
        output, copied = facts.outputs[mount.name], facts.sources.get(mount.name)
        if copied is None:
            return {**fields, "kind": "saves", **saves(output)}
        return {**fields, "kind": "saves", **saves(output, copied=True), "from": blob_key(copied)}
    if mount.is_foreign:
        return {**fields, "kind": "foreign", **foreign_source(mount)}
    exists = {"exists": True} if mount.mode == "lazy" else {}
    return {**fields, "kind": "folder", "path": mount.place, **exists}


def foreign_source(mount: Mount) -> dict[str, Any]:
    """Return the fields of a mount of another owner's store, as `runspec_agent.transfer.other_stores` reads them."""
    return {"source": mount.source, **({"anonymous": True} if mount.anonymous else {})}


def list_foreign(steps: Iterable[Step], *, written: bool = False) -> list[str]:
    """Return the stores of other owners that the job of *steps* reads by its own identity, by its record.

    If *written* is true, return those that its outputs are written to instead.
    """
    records = [
        json.loads(text)
        for step in steps
        for text in (step.do.params.get("Body"), step.do.params.get("body"))
        if step.id == "record" and isinstance(text, str)
    ]
    if written:
        return [o["target"] for record in records for o in record["outputs"] if "target" in o]
    mounts = [mount for record in records for mount in record["mounts"]]
    return [m["source"] for m in mounts if m["kind"] == "foreign" and not m.get("anonymous")]
