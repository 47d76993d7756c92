"""Where each provider is tried by the contract: one world each, by the provider's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from runspec import registry
from runspec.provider import Answer
from runspec.testing import Strike, World

Harness = Callable[[Path, pytest.MonkeyPatch], World]


class LocalWorld(World):
    """Processes of this machine."""

    def faults(self) -> Mapping[str, Strike]:
        return {"the supervisor answers late": answers_late}


def answers_late(send: Callable[[], Answer]) -> Answer:
    """The supervisor starts, and whoever asked for it has stopped listening."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runspec_local.client.READY_S", 0.0)
        return send()


def local(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Processes of this machine, below *folder*."""
    monkeypatch.setenv("RUNSPEC_HOME", str(folder / "runspec"))
    return LocalWorld(
        registry.load("local"),
        folder,
        options={"engine": "process", "grace": "1s"},
    )


HARNESSES: dict[str, Harness] = {"local": local}
