"""Where each provider is tried by the contract: one world each, by the provider's name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from runspec import registry
from runspec.provider import Answer, NoAnswer
from runspec.testing import Send, Strike, World

Harness = Callable[[Path, pytest.MonkeyPatch], World]


class LocalWorld(World):
    """Processes of this machine, with a supervisor that can be too slow to be waited for."""

    def faults(self) -> Mapping[str, Strike]:
        def slow(send: Send) -> Answer:
            with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", ResourceWarning
                )  # its pipe is left to the collector
                patch.setattr("runspec_local.client.READY_S", 0.0)
                try:
                    return send()
                except NoAnswer as exc:
                    why = exc.message
            raise NoAnswer(why)

        return {"the supervisor answers late": slow}


def local(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("RUNSPEC_HOME", str(folder / "runspec"))
    return LocalWorld(
        registry.load("local"),
        folder,
        options={"engine": "process", "grace": "1s"},
        overlooks={"memory", "disk"},  # of processes; to be told as a note
    )


HARNESSES: dict[str, Harness] = {"local": local}
