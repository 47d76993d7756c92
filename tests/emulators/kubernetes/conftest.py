"""Clusters for the tests: with a server and processes, or without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.emulators.kubernetes.bench import Bench

if TYPE_CHECKING:  # the official client takes a second to import
    from tests.emulators.kubernetes.stand import Stand


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Stand]]:
    from tests.emulators.kubernetes.stand import Stand

    made: list[Stand] = []

    def start(**settings: Any) -> Stand:
        made.append(Stand(tmp_path / str(len(made)), **settings))
        return made[-1]

    yield start
    for stand in made:
        stand.close()


@pytest.fixture
def stand(make: Callable[..., Stand]) -> Stand:
    return make()
