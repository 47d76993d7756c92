"""Reads the entry points of installed packages without importing `importlib.metadata`, a tenth of the start-up."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from runspec_agent.base.light_typing import NamedTuple

if TYPE_CHECKING:
    from importlib import metadata

FILE = "entry_points.txt"
SUFFIXES = (".dist-info", ".egg-info")


class EntryPoint(NamedTuple):
    """An object that a package offers to others, as in `importlib.metadata`; *folder* has the package's metadata."""

    name: str
    value: str
    folder: str | None = None

    @property
    def module(self) -> str:
        return self.value.partition(":")[0].strip()

    @property
    def dist(self) -> metadata.Distribution | None:
        """The package; None if it is not known."""
        if self.folder is None:
            return None
        from importlib.metadata import Distribution  # only for messages
        from pathlib import Path

        return Distribution.at(Path(self.folder))

    def load(self) -> Any:
        """Import the module and return the object. Raises ImportError or AttributeError."""
        attributes = self.value.partition("[")[0].partition(":")[2].strip()
        module = importlib.import_module(self.module)
        return reduce(getattr, filter(None, attributes.split(".")), module)


def read(group: str) -> list[EntryPoint] | list[metadata.EntryPoint]:
    """Return the entry points of *group*; of two packages of one name, those of the first on `sys.path`."""
    if any(map(_is_special, [*sys.meta_path, *sys.path])):
        from importlib import metadata  # reads archives and asks finders

        return list(metadata.entry_points(group=group))
    seen: set[str] = set()
    points: list[EntryPoint] = []
    # An empty entry of `sys.path` is the current folder.
    for folder in dict.fromkeys(path or "." for path in sys.path):
        for entry in _entries(folder):
            stem, suffix = os.path.splitext(entry)
            package = re.sub(r"[-_.]+", "_", stem.partition("-")[0]).lower()
            if suffix.lower() in SUFFIXES and package not in seen:
                seen.add(package)
                points += _in_folder(os.path.join(folder, entry), group)
    return points


def _is_special(path: object) -> bool:
    """Return whether *path* may have packages that are not folders: an archive, an egg, or a finder of its own."""
    if isinstance(path, str):
        return path.endswith(".egg") or os.path.isfile(path)
    known = importlib.machinery.PathFinder
    return path is not known and hasattr(path, "find_distributions")


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # sys.path may name folders that do not exist
        return []


def _in_folder(folder: str, group: str) -> Iterator[EntryPoint]:
    """Yield the entry points of one package.

    https://packaging.python.org/en/latest/specifications/entry-points/#file-format
    """
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            text = file.read()
    except OSError:  # most packages have no entry points
        return
    # Most packages offer nothing to this group, and their files need not be parsed.
    if f"[{group}]" not in text:
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]")
        elif section == group and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.strip(), folder)
