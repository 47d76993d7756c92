"""SECURITY.md: each promise has a test, and the test is there."""

from __future__ import annotations

import re

import pytest

from tests.support.named_tests import is_defined, named_tests
from tests.support.root import ROOT

PAGE = (ROOT / "SECURITY.md").read_text()
PROMISES = re.findall(r"^\| (.*?\.) \| (.*) \|$", PAGE, re.MULTILINE)
TESTS = named_tests(PAGE)


def test_each_promise_names_a_test() -> None:
    assert len(PROMISES) == PAGE.partition("## Promises")[2].count("\n| ") - 2
    assert [what for what, tests in PROMISES if "::test_" not in tests] == []


@pytest.mark.parametrize("path,name", TESTS)
def test_each_test_that_the_page_names_is_there(path: str, name: str) -> None:
    assert is_defined(path, name)


def test_readme_and_profile_page_link_to_the_security_policy() -> None:
    for page in ("README.md", "docs/profile.md"):
        assert "SECURITY.md" in (ROOT / page).read_text()
