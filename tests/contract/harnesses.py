"""Where each provider is tried by the contract: one world each, by the provider's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runspec import registry
from runspec.testing import World

Harness = Callable[[Path, pytest.MonkeyPatch], World]


def local(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Processes of this machine, below *folder*."""
    monkeypatch.setenv("RUNSPEC_HOME", str(folder / "runspec"))
    return World(
        registry.load("local"),
        folder,
        options={"engine": "process", "grace": "1s"},
        overlooks={"memory", "disk"},  # of processes; to be told as a note
    )


HARNESSES: dict[str, Harness] = {"local": local}
