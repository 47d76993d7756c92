"""Providers by entry point: a plugin adds to the built-ins and never hides one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from runspec_jobs.errors import Conflict, Unavailable
from runspec_jobs.load import registry


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    registry.list_installed.cache_clear()
    yield
    registry.list_installed.cache_clear()


def offer(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    made = tuple(EntryPoint(name, value, registry.GROUP) for name, value in points)
    monkeypatch.setattr(registry, "list_entry_points", lambda: made)


def test_the_local_provider_comes_with_runspec() -> None:
    assert registry.load("local").name == "local"


def test_a_plugin_adds_to_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("local", "runspec_local:PROVIDER"), ("mine", "mine:PROVIDER"))

    assert list(registry.list_installed()) == ["local", "mine"]


def test_two_packages_with_one_name_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("local", "runspec_local:PROVIDER"), ("local", "other:PROVIDER"))

    with pytest.raises(Conflict, match=r"runspec_local:PROVIDER and other:PROVIDER"):
        registry.list_installed()


def test_a_provider_that_is_to_come_is_told_apart_from_a_slip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "EXPECTED", ("tomorrow",))

    assert registry.explain_missing("tomorrow")[0] == "the provider 'tomorrow' does not exist yet"
    assert registry.explain_missing("locla") == (
        "the provider 'locla' is not installed",
        "did you mean 'local'?",
    )


def test_a_plugin_that_does_not_import_is_no_bug_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("mine", "no_such_module:PROVIDER"))

    with pytest.raises(Unavailable, match="cannot be loaded"):
        registry.load("mine")


def test_a_plugin_under_a_name_that_is_not_its_own_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("mine", "runspec_local:PROVIDER"))

    with pytest.raises(Unavailable, match="registers 'local' as 'mine'"):
        registry.load("mine")
