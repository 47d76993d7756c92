"""Compares mounted folders without the text of the spec, which may be a file in them.

The upload has that file as it is. But a comment in it is no reason for another run: the spec itself is compared by what
it says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_jobs.load.bundle import FolderBundle
from runspec_jobs.load.inputs import PlanInputs
from runspec_jobs.provider import Facts
from runspec_jobs.state.run_record import Record


def find_spec_file(inputs: PlanInputs) -> Path | None:
    """Return the file of the spec; None if it is no file."""
    # A spec from a mapping or from bytes has a name that no file has.
    file = inputs.base.absolute() / Path(inputs.text.name).name
    return file if file.is_file() else None


def describe_spec_file(inputs: PlanInputs) -> Mapping[str, Any] | None:
    """Return the size and the digest of the spec's file for the record, if a mounted folder contains it."""
    for _, bundle, inner_path in _find_mounts(inputs):
        (file,) = [f for f in bundle.files if f.path == inner_path]
        return {"bytes": file.bytes, "sha256": file.sha256}
    return None


def restore_facts(old: Record, inputs: PlanInputs) -> Facts | None:
    """Return the facts of *inputs* as if the file of the spec were the one of *old*; None if no folder contains it.

    A run of an earlier version has only the text after `--set` on record, which is the file if nothing was set.
    """
    sources = dict(inputs.facts.sources)
    then = old.read_memory().about.get("spec_file")
    for name, bundle, inner_path in _find_mounts(inputs):
        if then is None:
            text = old.job
            then = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
        sources[name] = bundle.replace_file(inner_path, then["bytes"], then["sha256"])
    return None if sources == inputs.facts.sources else inputs.facts._replace(sources=sources)


def _find_mounts(inputs: PlanInputs) -> list[tuple[str, FolderBundle, str]]:
    """Return each mount that contains the file of the spec, with the path of that file in it."""
    file = find_spec_file(inputs)
    if file is None:
        return []
    mounted, real = [], file.resolve()
    for name, bundle in inputs.bundles.items():
        top = bundle.folder.resolve()
        inner_path = str(real.relative_to(top)) if real.is_relative_to(top) else ""
        if bundle.is_file:
            inner_path = next((to for to, at in bundle.places.items() if at == inner_path), "")
        if any(file.path == inner_path for file in bundle.files):
            mounted.append((name, bundle, inner_path))
    return mounted
