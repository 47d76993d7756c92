#!/usr/bin/env python3
"""Prints the section of CHANGELOG.md for a tag, if the tag, the package and the changelog have one version."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def find_notes(tag: str, version: str, changelog: str) -> str:
    """Return the notes of the release *tag*. Raises ValueError if something disagrees.

    >>> find_notes("v1.0.0", "1.0.0", "## [1.0.0] - 2026-11-27\\n\\nNew.\\n\\n## [0.9.0] - 2026-01-01\\n")
    'New.\\n'
    """
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, and the version in pyproject.toml {version}")
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)
    found = [s for s in sections if re.match(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n", s)]
    if not found:
        raise ValueError(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'")
    notes = found[0].partition("\n")[2].strip()
    if not notes:
        raise ValueError(f"the section of {version} in CHANGELOG.md is empty")
    return f"{notes}\n"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: tools/release_notes.py TAG", file=sys.stderr)
        return 2
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    try:
        print(find_notes(arguments[0], version, (ROOT / "CHANGELOG.md").read_text()), end="")
    except ValueError as exc:
        print(f"tools/release_notes.py: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
