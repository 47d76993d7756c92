"""docs/architecture.md: the tests and the rooms that it names are those of the project."""

from __future__ import annotations

import re

import pytest

from tests.support.named_tests import is_defined, named_tests
from tests.support.root import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()
TREE = PAGE.partition("## Tree")[2].partition("\n## ")[0]


@pytest.mark.parametrize("path,name", named_tests(PAGE))
def test_each_test_that_the_page_names_is_there(path: str, name: str) -> None:
    assert is_defined(path, name)


@pytest.mark.parametrize("folder", ["runner/runspec_jobs", "runner/runspec_agent", "providers"])
def test_the_tree_names_every_room(folder: str) -> None:
    rooms = {file.parent.name for file in (ROOT / folder).glob("*/__init__.py")}

    part = re.split(r"^    (?=\S)", TREE.partition(f"    {folder}/")[2], flags=re.MULTILINE)[0]

    assert set(re.findall(r"^ {6}(\w+)/ +\S", part, re.MULTILINE)) == rooms
