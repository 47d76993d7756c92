"""What `process.run` makes of a program that cannot succeed any more, without a program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runspec_agent.base import process
from runspec_agent.base.job_env import LOST, Failure

LOOKS = 100  # that a test waits for, at most


class Program:
    """A program that ends when it is asked to."""

    code, exit_code = None, 143

    def __init__(self) -> None:
        self.looks, self.graces = 0, list[float]()

    def is_over(self) -> bool:
        self.looks += 1
        assert self.looks < LOOKS, "nothing has ended it"
        return bool(self.graces)

    def members(self) -> list[Any]:
        return []

    def tick(self) -> None: ...

    def give_up(self, grace_s: float) -> None:
        self.graces.append(grace_s)


def test_a_program_is_given_up_once_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may save for as long as the grace period; the reason, and not its exit code, is the end of the node."""
    monkeypatch.setattr(process, "reap", lambda children: False)
    signals = SimpleNamespace(wait=lambda seconds: [])
    reasons = iter([None, Failure("node 1 is lost", LOST)])
    program: Any = Program()

    with pytest.raises(Failure, match="node 1 is lost"):
        process.run(program, signals, 7.0, lambda: next(reasons))  # type: ignore[arg-type]

    assert program.graces == [7.0]
