#!/usr/bin/env python3
"""Builds the site of docs/ into a folder, strictly: `.venv/bin/python tools/site_pages.py FOLDER`.

The pages are copied first, because links to files outside of docs/ must lead to the repository in the site.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from runspec_jobs import manual

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = re.compile(r"\]\(\.\./([^)\s]+)\)")


def make_navigation(index: str) -> list[object]:
    """Return the navigation that the page index.md has.

    >>> make_navigation("## Start\\n| [Tutorial](tutorial.md) | from nothing |\\n")
    [{'Home': 'index.md'}, {'Start': [{'Tutorial': 'tutorial.md'}]}]
    """
    sections: dict[str, list[object]] = {}
    for page in manual.parse_index(index):
        sections.setdefault(page.section, []).append({page.title: f"{page.name}.md"})
    return [{"Home": "index.md"}, *({title: rows} for title, rows in sections.items())]


def read_repository() -> str:
    """Return the address of the repository: pyproject.toml is the one place that has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["urls"]["Repository"])


def copy_pages(target: Path, pages: Mapping[str, str], repository: str) -> None:
    """Write the pages, with links to files outside of docs/ as links to the repository."""
    for name, text in pages.items():
        (target / name).write_text(OUTSIDE.sub(rf"]({repository}/blob/main/\1)", text))


def make_configuration(base: str, index: str, repository: str) -> str:
    """Return the configuration with the navigation and the address of the repository."""
    text = json.dumps(make_navigation(index)).replace(
        '": ', '" = '
    )  # a table of JSON is one of TOML, but for the colons
    more = f'nav = {text}\nrepo_url = "{repository}"\n'
    return base.replace("[project]\n", f"[project]\n{more}", 1)


def build(target: Path, folder: Path = ROOT / "docs") -> int:
    """Build the site of the pages in *folder* into *target*; return the exit code: a broken link is an error."""
    repository = read_repository()
    pages = {page.name: page.read_text() for page in sorted(folder.glob("*.md"))}
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        shutil.copytree(folder, room / "docs")
        copy_pages(room / "docs", pages, repository)
        base = (ROOT / "zensical.toml").read_text()
        configuration = make_configuration(base, pages["index.md"], repository)
        (room / "zensical.toml").write_text(configuration)
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
        made = subprocess.run(command, cwd=room, check=False)
        if made.returncode == 0:
            shutil.copytree(room / "site", target, dirs_exist_ok=True)
    return made.returncode


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: .venv/bin/python tools/site_pages.py FOLDER", file=sys.stderr)
        return 2
    return build(Path(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
