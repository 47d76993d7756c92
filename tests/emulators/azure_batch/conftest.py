"""Stands for the tests: makers of them, and a store for files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.azure_batch.stand import Stand, Store


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Stand]]:
    made: list[Stand] = []

    def one(**settings: Any) -> Stand:
        made.append(Stand(tmp_path / str(len(made)), **settings))
        return made[-1]

    yield one
    for stand in made:
        stand.server.close()


@pytest.fixture
def stand(make: Callable[..., Stand]) -> Stand:
    return make().ready()


@pytest.fixture
def store() -> Iterator[Store]:
    found = Store()
    yield found
    found.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test has a service of its own, and waits for it: half a minute in all."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)
