"""Find the tests that a page names."""

from __future__ import annotations

import re

from tests.support.root import ROOT


def named_tests(page: str) -> list[tuple[str, str]]:
    """Return each `file.py::test_name` of *page* once, as path and name."""
    return sorted(set(re.findall(r"`([a-z_/0-9]+\.py)::(test_\w+)`", page)))


def is_defined(path: str, name: str) -> bool:
    """Return whether the file *path* of the project defines the test *name*."""
    file = ROOT / path
    return file.is_file() and bool(re.search(rf"^ *def {name}\(", file.read_text(), re.MULTILINE))
