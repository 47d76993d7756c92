"""What jobs find in an object store, whichever it is: where things lie, and the record of what to do."""

from __future__ import annotations

from typing import Any

from runspec.spec import Mount, Spec
from runspec.values import Facts, Source

FORMAT = "runspec.run/v1"
OUTPUT_TAR = ".runspec/output.tar"  # where an output that was sent whole lies, below its prefix


def blob_name(source: Source) -> str:
    """Give what the tar of a folder is called: its content, so that it is there once.

    >>> blob_name(Source("sha256:ab12", files=1, bytes=2))
    'ab12.tar'
    """
    return f"{source.digest.removeprefix('sha256:')}.tar"


def job_record(spec: Spec, run: str, facts: Facts, **more: Any) -> dict[str, Any]:
    """Give what `runspec_inside.agent` reads; it lies at `runs/RUN/record.json`.

    *more* is what the service decides: `shape` (single, array or nodes), `tries` (in all, of one
    node), `spot` (whether the machine tells of its end, and how: true is as EC2 does), `stops`
    (the code that ends a whole sweep, and so is no program's), and what the
    provider's client reads. Keys are relative to the prefix of the profile.
    """
    return {
        "format": FORMAT,
        "run": run,
        "nodes": spec.cluster.nodes.max,
        "slots": spec.processes_per_node,
        "launch": str(spec.launch),
        "attempts": spec.retry.attempts,
        "timeout_s": spec.timeout,
        "sweep": [[name, list(values)] for name, values in spec.sweep.items()],
        "mounts": [_mount(mount, facts) for mount in spec.mounts],
        "outputs": [{"name": o.name, "path": o.path, "sync_s": o.sync} for o in spec.outputs],
        "requirements": list(facts.requirements),
        "build_constraints": list(spec.container.build_constraints),
        **more,
    }


def _mount(mount: Mount, facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = {"name": mount.name, "target": mount.target}
    if mount.scheme == "file":
        return {**found, "kind": "tar", "key": f"blobs/{blob_name(facts.sources[mount.name])}"}
    if mount.scheme == "store":
        return {**found, "kind": "prefix", "key": f"store/{mount.place.strip('/')}/"}
    return {**found, "kind": "folder", "path": mount.place}
