"""Groups of runs: one spec at several sizes. A file with the spec is written before the first run.

The runs of a group are found by their names, NAME-n1 or NAME-p1 and so on, so no list of them can be out of date.
"""

from __future__ import annotations

import re
from pathlib import Path

from runspec_jobs.document import reader
from runspec_jobs.errors import UsageError
from runspec_jobs.provider import Spec, paths
from runspec_jobs.spec.scaling import make_name
from runspec_jobs.spec.types import NAME
from runspec_jobs.spec.validate import parse_spec as checked
from runspec_jobs.state import atomic_io, run_record
from runspec_jobs.state.run_record import Record


def _find_path(name: str) -> Path:
    return paths.find_home() / "groups" / f"{name}.yaml"


def keep(spec: Spec, text: bytes) -> None:
    """Write the spec of a group to disk; it replaces an earlier group of the same name."""
    path = _find_path(spec.name)
    with atomic_io.translate_os_errors(path):
        atomic_io.make_folder(path.parent)
        atomic_io.write(path, text)


def find(name: str) -> Spec | None:
    """Return the spec of the group called *name*, or None if there is no such group."""
    # A name from the command line must not lead to a file elsewhere, such as `../x`.
    if not re.fullmatch(NAME, name):
        return None
    try:
        text = _find_path(name).read_bytes()
    except FileNotFoundError:
        return None
    spec, _ = checked(reader.read(text))
    if spec is None:
        raise UsageError(
            f"{_find_path(name)} is not a valid spec", "apply the spec again, or remove the file"
        )
    return spec


def find_runs(spec: Spec) -> dict[int, Record | None]:
    """Return the newest run for each size of a group, or None where there is no run."""
    assert spec.scaling is not None, "BUG: the spec of a group has no scaling"
    by_size: dict[int, Record | None] = {}
    for size in spec.scaling.sizes:
        records = run_record.list_runs(make_name(spec, size))
        by_size[size] = records[-1] if records else None
    return by_size


def forget(name: str) -> None:
    """Delete the file of the group called *name*, if it exists."""
    path = _find_path(name)
    with atomic_io.translate_os_errors(path):
        path.unlink(missing_ok=True)
