"""What an mpirun gets whose program cannot succeed any more, without an mpirun."""

from __future__ import annotations

import os
import signal

import pytest

from runspec_agent.launch.mpi import Led

PID = 1 << 30  # of no process


def test_an_mpirun_that_is_given_up_is_killed_after_its_grace_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It gets SIGTERM itself, unlike at a stop, when its ranks do: they may be on nodes that are lost."""
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(("process", number)))
    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append(("group", number)))
    led = Led.__new__(Led)
    led.pid, led.stopped_with = PID, None

    led.give_up(60.0)
    led.tick()
    early = list(sent)
    led = Led.__new__(Led)
    led.pid, led.stopped_with = PID, None
    led.give_up(0.0)
    led.tick()

    assert early == [("process", signal.SIGTERM)]
    assert sent == [*early, ("process", signal.SIGTERM), ("group", signal.SIGKILL)]
