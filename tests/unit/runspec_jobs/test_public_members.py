"""Everything that programs may use from Python says what it does, and the page names it."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator

import pytest

from runspec_jobs import api
from tests.support.root import ROOT

PAGE = (ROOT / "docs" / "python-reference.md").read_text()


def list_members(kind: type) -> Iterator[tuple[str, object]]:
    """Yield the public members of *kind* that this project defines."""
    for name, value in inspect.getmembers(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), kind)
        if not name.startswith("_") and owner.__module__.startswith("runspec_"):
            yield name, value


@pytest.mark.parametrize("name", [name for name in api.__all__ if name != "OnEvent"])
def test_each_public_name_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(getattr(api, name))


@pytest.mark.parametrize("name", api.__all__)
def test_the_page_names_each_public_name(name: str) -> None:
    assert name in PAGE


@pytest.mark.parametrize("name", api.__all__)
def test_each_public_member_is_documented(name: str) -> None:
    value = getattr(api, name)
    if not isinstance(value, type) or issubclass(value, enum.Enum):
        return
    said = inspect.getdoc(value) or ""

    lacking = [
        member
        for member, own in list_members(value)
        if (f"*{member}*" not in said and f"`{member}`" not in said and member != "veil")
        and not ((callable(own) or isinstance(own, property)) and inspect.getdoc(own))
    ]

    # The fields of a spec are in docs/reference.md.
    fields = {**getattr(value, "model_fields", {}), "model_config": None}
    assert [member for member in lacking if member not in fields] == []
