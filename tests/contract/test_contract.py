"""Every registered provider keeps every promise of `runspec_jobs.provider`: see runspec_jobs.testing."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_jobs.load import registry
from runspec_jobs.testing import ProviderContract, World
from tests.contract.harnesses import HARNESSES, MORE

REGISTERED = list(registry.list_installed())


@pytest.mark.process
class TestContract(ProviderContract):
    @pytest.fixture(params=[*(name for name in REGISTERED if name in HARNESSES), *MORE])
    def world(
        self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> World:
        return {**HARNESSES, **MORE}[request.param](tmp_path, monkeypatch)


@pytest.mark.parametrize("name", REGISTERED)
def test_every_registered_provider_is_tried(name: str) -> None:
    assert name in HARNESSES, f"give '{name}' a harness in tests/contract/harnesses.py"


@pytest.mark.parametrize("name", HARNESSES)
def test_every_harness_is_of_a_registered_provider(name: str) -> None:
    assert name in REGISTERED
