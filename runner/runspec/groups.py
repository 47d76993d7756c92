"""Groups of runs: one spec at several sizes. What a group is stands in one file, put down before its first run.

The runs are found by their names, NAME-n1, NAME-n2: nothing else has to be kept, so there is nothing to come apart.
"""

from __future__ import annotations

import re
from pathlib import Path

from runspec import disk, home, record, yamlio
from runspec.check import spec as checked
from runspec.errors import UsageError
from runspec.provider import Spec
from runspec.record import Record
from runspec.scalars import NAME
from runspec.sized import named


def _path(name: str) -> Path:
    return home.home() / "groups" / f"{name}.yaml"


def keep(spec: Spec, text: bytes) -> None:
    """Put the spec of a group on the disk, in the place of an earlier one of that name."""
    path = _path(spec.name)
    with disk.told(path):
        disk.make_folder(path.parent)
        disk.write(path, text)


def find(name: str) -> Spec | None:
    """Give the spec of the group called *name*; None where there is no such group."""
    if not re.fullmatch(NAME, name):
        return None
    try:
        text = _path(name).read_bytes()
    except FileNotFoundError:
        return None
    found, _ = checked(yamlio.read(text))
    if found is None:
        raise UsageError(f"{_path(name)} is no spec", "apply it again, or remove the file")
    return found


def runs(spec: Spec) -> dict[int, Record | None]:
    """Give the newest run of each size of a group, by size; None where there is none."""
    assert spec.scaling is not None, "BUG: a group has sizes"
    found: dict[int, Record | None] = {}
    for size in spec.scaling.nodes:
        of = record.of_name(named(spec.name, size))
        found[size] = of[-1] if of else None
    return found


def forget(name: str) -> None:
    """Take a group off the disk; content when there is none."""
    path = _path(name)
    with disk.told(path):
        path.unlink(missing_ok=True)
