"""Who may set a field of a provider's options: said of each, and found in whatever a file has."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from runspec_jobs.load import registry
from runspec_jobs.provider import Options
from runspec_jobs.provider.settings import Anyone, Model, User, Word
from runspec_jobs.spec.field_marks import find_unmarked, find_user_settings, list_with_nested
from runspec_jobs.spec.model import Spec
from runspec_jobs.testing.contract import ProviderContract


class Part(Model):
    place: User[Word | None] = None
    size: Anyone[int] = 1


class Marked(Options):
    host: User[Word | None] = None
    queue: Anyone[Word | None] = Field(default=None, description="The queue.")
    part: Anyone[Part | None] = None
    parts: Anyone[Mapping[Word, Annotated[Part, Field()]]] = Field(default={})
    listed: Anyone[tuple[Part, ...]] = ()


class Half(Part):
    more: int = 1


class Unmarked(Options):
    host: Word | None = None
    part: Anyone[Half | None] = None
    both: User[Anyone[int]] = 1


class World:
    """As much of a harness as this promise looks at."""

    def __init__(self, kind: type[Options]) -> None:
        self.provider = self
        self.options_model = kind


def test_the_contract_refuses_a_provider_with_a_field_that_nobody_marked() -> None:
    """Also a field of a model within, and one that has both marks."""
    world: Any = World(Unmarked)

    with pytest.raises(AssertionError, match=r"Unmarked\.host"):
        ProviderContract().test_its_settings_say_who_may_set_them(world)

    assert find_unmarked(Unmarked) == ["Unmarked.host", "Unmarked.both", "Half.more"]


def test_a_model_of_two_fields_is_looked_at_once() -> None:
    class Twice(Options):
        one: Anyone[Half | None] = None
        other: Anyone[Half | None] = None

    assert find_unmarked(Twice) == ["Half.more"]


def test_the_contract_takes_a_provider_whose_fields_are_marked() -> None:
    world: Any = World(Marked)

    ProviderContract().test_its_settings_say_who_may_set_them(world)

    assert find_unmarked(Marked) == []


@pytest.mark.parametrize("name", registry.list_installed())
def test_every_field_of_every_provider_is_marked(name: str) -> None:
    assert find_unmarked(registry.load(name).options_model) == []


@pytest.mark.parametrize(
    "settings,found",
    [
        ({"queue": "q", "unknown": 1}, []),
        ({"host": None}, [("host",)]),
        ({"part": {"place": "/", "size": 2}}, [("part", "place")]),
        ({"parts": {"place": {"size": 1}, "b": {"place": "/"}}}, [("parts", "b", "place")]),
        ({"listed": [{}, {"place": "/"}]}, [("listed", 1, "place")]),
        ({"part": 3, "parts": [1], "listed": {"a": 1}}, []),
        (3, []),
    ],
)
def test_user_settings_are_found_at_any_depth(settings: Any, found: list[Any]) -> None:
    assert list(find_user_settings(Marked, settings)) == found


def test_a_field_without_a_mark_is_the_users() -> None:
    assert list(find_user_settings(Unmarked, {"host": "h"})) == [("host",)]


def test_a_mark_stands_in_the_schema_of_the_settings() -> None:
    fields = Marked.model_json_schema()["properties"]

    assert {name: field["x-set-by"] for name, field in fields.items()} == {
        "secrets": "user",
        "pools": "anyone",
        "host": "user",
        "queue": "anyone",
        "part": "anyone",
        "parts": "anyone",
        "listed": "anyone",
    }


def test_no_annotation_of_a_field_is_text_that_pydantic_compiles_at_each_start() -> None:
    kinds: list[type[BaseModel]] = [Spec]
    kinds += [registry.load(name).options_model for name in registry.list_installed()]
    models = {part for kind in kinds for part in list_with_nested(kind)}

    modules = {sys.modules[model.__module__] for model in models}
    assert [module.__name__ for module in modules if hasattr(module, "annotations")] == []
