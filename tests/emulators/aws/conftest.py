"""Stands for the tests: one that all of a module share, and makers of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.aws.stand import Stand


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    stand = Stand(tmp_path_factory.mktemp("stand")).ready()
    yield stand
    stand.server.close()


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
