"""Stands for the tests: each test makes its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.batch_ai.hand import Hand


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Hand]]:
    made: list[Hand] = []

    def one(**settings: Any) -> Hand:
        made.append(Hand(tmp_path / str(len(made)), **settings))
        return made[-1]

    yield one
    for hand in made:
        hand.stand.close()


@pytest.fixture
def hand(make: Callable[..., Hand]) -> Hand:
    return make().ready()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test has a service of its own, and waits for it: half a minute in all."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)
