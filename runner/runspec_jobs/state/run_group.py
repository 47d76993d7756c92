"""Groups of runs: one spec at several sizes. What a group is stands in one file, put down before its first run.

The runs are found by their names, NAME-n1, NAME-n2: nothing else has to be kept, so there is nothing to come apart.
"""

from __future__ import annotations

import re
from pathlib import Path

from runspec_jobs.document import reader
from runspec_jobs.errors import UsageError
from runspec_jobs.provider import Spec, paths
from runspec_jobs.spec.scaling import named
from runspec_jobs.spec.types import NAME
from runspec_jobs.spec.validate import spec as checked
from runspec_jobs.state import atomic_io, run_record
from runspec_jobs.state.run_record import Record


def _path(name: str) -> Path:
    return paths.home() / "groups" / f"{name}.yaml"


def keep(spec: Spec, text: bytes) -> None:
    """Put the spec of a group on the disk, in the place of an earlier one of that name."""
    path = _path(spec.name)
    with atomic_io.told(path):
        atomic_io.make_folder(path.parent)
        atomic_io.write(path, text)


def find(name: str) -> Spec | None:
    """Give the spec of the group called *name*; None where there is no such group."""
    if not re.fullmatch(NAME, name):
        return None
    try:
        text = _path(name).read_bytes()
    except FileNotFoundError:
        return None
    found, _ = checked(reader.read(text))
    if found is None:
        raise UsageError(f"{_path(name)} is no spec", "apply it again, or remove the file")
    return found


def runs(spec: Spec) -> dict[int, Record | None]:
    """Give the newest run of each size of a group, by size; None where there is none."""
    assert spec.scaling is not None, "BUG: a group has sizes"
    found: dict[int, Record | None] = {}
    for size in spec.scaling.nodes:
        of = run_record.of_name(named(spec.name, size))
        found[size] = of[-1] if of else None
    return found


def forget(name: str) -> None:
    """Take a group off the disk; content when there is none."""
    path = _path(name)
    with atomic_io.told(path):
        path.unlink(missing_ok=True)
