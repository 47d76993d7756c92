"""What jobs find in an object store, whichever it is: where things lie, and the record of what to do."""

from __future__ import annotations

import json
from typing import Any

from runspec_jobs import record_formats
from runspec_jobs.errors import NoAnswer
from runspec_jobs.provider.types import Facts, Source
from runspec_jobs.spec.model import Mount, Spec
from runspec_jobs.spec.placeholders import SMOKE, Axis, axes

FORMAT = "runspec.run/v1"
OUTPUT_TAR = ".runspec/output.tar"  # where an output that was sent whole lies, below its prefix


def blob_name(source: Source) -> str:
    """Give what the tar of a folder is called: its content, so that it is there once.

    >>> blob_name(Source("sha256:ab12", files=1, bytes=2))
    'ab12.tar'
    """
    return f"{source.digest.removeprefix('sha256:')}.tar"


def job_record(spec: Spec, run: str, facts: Facts, **more: Any) -> dict[str, Any]:
    """Give what `runspec_agent.job.agent` reads; it lies at `runs/RUN/record.json`.

    *more* is what the service decides: `shape` (single, array or nodes), `tries` (in all, of one
    node), `spot` (whether the machine tells of its end, and how: true is as EC2 does), `stops`
    (the code that ends a whole sweep, and so is no program's), `stop_s` (how often a task looks
    whether it was stopped, where its service cannot tell it), and what the provider's client
    reads. Keys are relative to the prefix of the profile.
    """
    return {
        "format": FORMAT,
        "run": run,
        "nodes": spec.cluster.nodes.max,
        "slots": spec.processes_per_node,
        "launch": str(spec.launch),
        "attempts": spec.retry.attempts,
        "timeout_s": spec.timeout,
        "sweep": [_axis(axis) for axis in axes(spec.sweep)],
        "mounts": [_mount(mount, facts) for mount in spec.mounts],
        "outputs": kept_outputs(spec),
        "requirements": list(facts.requirements),
        "build_constraints": list(spec.container.build_constraints),
        **_shared(spec),
        **more,
    }


def read_record(content: bytes, what: str) -> dict[str, Any]:
    """Return the record of a run that lies in its store; *what* names it.

    Raises Newer where a newer version wrote it, and NoAnswer where it is none: a part of it may have come.
    """
    try:
        found: dict[str, Any] = json.loads(content)
    except ValueError as exc:
        raise NoAnswer(f"the record of the run cannot be read: {exc}") from exc
    record_formats.check(found, FORMAT, what)
    return found


def kept_outputs(spec: Spec) -> list[dict[str, Any]]:
    """Give what the record says of outputs: of which nodes they are kept, where that is not as always."""
    nodes = spec.cluster.nodes
    always = "first" if nodes.elastic else "all"
    return [
        {
            "name": o.name,
            "path": o.path,
            "sync_s": o.sync,
            **({"from": o.origin} if nodes.max > 1 and o.origin not in (None, always) else {}),
            **({"keep": o.keep} if o.keep > 1 else {}),
        }
        for o in spec.outputs
    ]


def _shared(spec: Spec) -> dict[str, Any]:
    """Give what only some jobs have, so that the record of the others stays as it was."""
    found: dict[str, Any] = {}
    if spec.global_batch is not None:
        found["global_batch"] = spec.global_batch
    if spec.cluster.nodes.elastic:
        found["elastic"] = {"min": spec.cluster.nodes.min, "max": spec.cluster.nodes.max}
    return found


def reach(spec: Spec, rule: str) -> dict[str, str]:
    """Give what the record of a smoke test on several nodes says besides: that they try to reach each other first.

    *rule* says what to look at, in the words of the service, when some cannot.
    """
    return {"reach": rule} if SMOKE in spec.env and spec.cluster.nodes.max > 1 else {}


def _axis(axis: Axis) -> list[Any]:
    """Give a parameter and its values, or the names of several and the values that they have together."""
    if len(axis.names) == 1:
        return [axis.names[0], [value for (value,) in axis.rows]]
    return [list(axis.names), [list(row) for row in axis.rows]]


def _mount(mount: Mount, facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = {"name": mount.name, "target": mount.target}
    if mount.scheme == "file":
        return {**found, "kind": "tar", "key": f"blobs/{blob_name(facts.sources[mount.name])}"}
    if mount.scheme == "store":
        return {**found, "kind": "prefix", "key": f"store/{mount.place.strip('/')}/"}
    return {**found, "kind": "folder", "path": mount.place}
