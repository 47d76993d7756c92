"""Folders are neither too large nor too small, and modules of all providers have the same names.

The names are in docs/architecture.md, Modules of a provider.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.root import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text().partition("## Modules of a provider")[2]
SOURCES = ("runner", "providers", "emulators")
MOST, MOST_AT_TOP = 17, 26  # modules in a folder
ROOMS = set(
    """
attempts check cleanup client decision discover doctor emulator errors importing infrastructure job logs lookup naming
offer options orphans plan policy price_list probes provider publish reasons resources session setup shell signed status
store task_stop timing
""".split()
)
# Rooms that only one provider has.
OWN = {
    "runspec_local": {"supervisor"},
    "runspec_slurm": {"containers", "queue"},
}
# A provider within the package of what it shares with another.
NESTED = {"runspec_azure": {"batch"}}
TOPS = [
    "runspec_aws",
    "runspec_azure",
    *OWN,
    "runspec_azure/batch",
    "runspec_batchai",
    "runspec_kubernetes",
    "runspec_parallelcluster",
]


def modules() -> Iterator[Path]:
    for top in SOURCES:
        yield from (f for f in (ROOT / top).rglob("*.py") if f.name != "__init__.py")


def most(folder: str) -> int:
    is_top = folder.removeprefix("providers/") in TOPS or folder == "runner/runspec_jobs/cli"
    return MOST_AT_TOP if is_top else MOST


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(str(file.parent.relative_to(ROOT)) for file in modules())

    assert {name: count for name, count in counts.items() if count > most(name)} == {}


def test_no_folder_has_one_or_two_modules() -> None:
    """They would be files of the folder around it; a package without modules is one file, beside its data."""
    folders = Counter(str(file.parent.relative_to(ROOT)) for file in modules())
    folders.update(
        str(file.parent.parent.relative_to(ROOT))
        for top in SOURCES
        for file in (ROOT / top).rglob("__init__.py")
        if file.parent.parent != ROOT / top
    )

    assert {name for name, count in folders.items() if count <= 2} == set()


def test_no_module_has_the_name_of_its_folder() -> None:
    assert [str(file) for file in modules() if file.stem == file.parent.name] == []


@pytest.mark.parametrize("top", TOPS)
def test_providers_have_rooms_of_the_same_names(top: str) -> None:
    folder = ROOT / "providers" / top
    packages = {file.parent.name for file in folder.glob("*/__init__.py")}
    files = {file.stem for file in folder.glob("*.py")} - {"__init__"}

    # A room that is too large for one file is several, whose names begin with its own.
    names = {name for name in packages | files if name.partition("_")[0] not in ROOMS}
    assert names - ROOMS - OWN.get(top, set()) - NESTED.get(top, set()) == set()


def test_the_page_explains_every_name() -> None:
    table = PAGE.partition("\n## ")[0]

    assert ROOMS.union(*OWN.values()) <= set(re.findall(r"`(\w+)`", table))


def test_every_provider_is_looked_at() -> None:
    found = {
        str(file.parent.relative_to(ROOT / "providers"))
        for file in (ROOT / "providers").rglob("provider.py")
    }

    assert found <= set(TOPS)
