"""The packages of docs/provider.md, as the page has them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.support.root import ROOT

FILE = re.compile(r"^`([\w-]+)/(\S+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_files(package: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file of *package*."""
    for name, path, text in FILE.findall((ROOT / "docs" / "provider.md").read_text()):
        if name == package:
            yield path, text


def write_package(package: str, folder: Path) -> Path:
    """Write the files of *package* into *folder*."""
    for path, text in read_files(package):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def write_metadata(folder: Path) -> None:
    """Write what an editable installation of the package in *folder* leaves beside its modules."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    points = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in points.items())])
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points) + "\n")
