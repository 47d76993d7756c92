"""Entry points are read as `importlib.metadata` reads them."""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from pathlib import Path

import pytest

from runspec_jobs import entry_points

GROUP = "runspec.providers"


def package(folder: Path, name: str, text: str) -> None:
    info = folder / f"{name}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name.partition('-')[0]}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(text)


def both(group: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the entry points of *group* as this module and as the standard library read them."""
    ours = sorted((point.name, point.value) for point in entry_points.read(group))
    theirs = sorted((p.name, p.value) for p in importlib.metadata.entry_points(group=group))
    return ours, theirs


@pytest.mark.parametrize("group", [GROUP, "console_scripts", "pytest11", "no.such.group"])
def test_the_groups_of_installed_packages_are_read(group: str) -> None:
    ours, theirs = both(group)

    assert ours == theirs


def test_the_first_of_two_packages_of_one_name_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path / "a", "my.plugin-1", f"[{GROUP}]\n# one\nmine = first:PROVIDER\n")
    package(tmp_path / "b", "My_Plugin-2", f"[{GROUP}]\nmine = second:PROVIDER\n")
    package(tmp_path / "b", "other-1", f"[x]\na = b\n[{GROUP}]\n yours=third : A.B [extra]\n[y]\n")
    monkeypatch.setattr(sys, "path", [*(str(tmp_path / x) for x in "abc"), *sys.path])

    ours, theirs = both(GROUP)

    assert ours == theirs
    assert ("mine", "first:PROVIDER") in ours and ("mine", "second:PROVIDER") not in ours
    point = next(p for p in entry_points.read(GROUP) if p.name == "yours")
    assert point.module == "third" and point.dist is not None and point.dist.name == "other"


def test_an_archive_on_the_path_is_read_by_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("zipped-1.dist-info/METADATA", "Name: zipped\nVersion: 1\n")
        archive.writestr("zipped-1.dist-info/entry_points.txt", f"[{GROUP}]\nzipped = z:P\n")
    monkeypatch.syspath_prepend(str(tmp_path / "all.zip"))

    ours, theirs = both(GROUP)

    assert ours == theirs and ("zipped", "z:P") in ours


def test_an_object_within_a_module_is_loaded() -> None:
    assert entry_points.EntryPoint("x", "os:path.join [extra]").load() is __import__("os").path.join
    assert entry_points.EntryPoint("x", "os").load() is __import__("os")
