"""The end of a job is recorded as soon as there is room for it."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from runspec_local.supervisor import ending


class Full:
    """Events on a disk that is full for *looks* more looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def add(self, event: str, **more: Any) -> None:
        self.flush()

    def flush(self) -> None:
        if self.looks:
            self.looks -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_end_without_room_is_told_and_recorded_later(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ending, "FULL_PAUSE_S", 0.0)
    kept: Any = Full(3)

    ending.add(kept, {"state": "succeeded"}, lambda: False)

    said = "runspec: cannot record how the job ended: No space left on device\n"
    assert (kept.looks, capsys.readouterr().err) == (0, said)


def test_a_supervisor_that_is_asked_to_end_does_not_wait_for_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "FULL_PAUSE_S", 0.0)
    kept: Any = Full(3)

    ending.add(kept, {"state": "succeeded"}, lambda: True)

    assert kept.looks == 2
