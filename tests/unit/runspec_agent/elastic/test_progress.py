"""A generation has got on when it has done a step that nobody did before it, or, without steps, ran and saved."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from runspec_agent.elastic import progress
from runspec_agent.elastic.progress import RUN_S, ProgressGuard


class Life:
    """Generations of one program, and a clock."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(progress, "time", clock)
        self.path = folder / "progress"
        self.headway = ProgressGuard(str(self.path))

    def made(self, *steps: int, seconds: float = 1.0, saved: bool = False, end: str = "\n") -> bool:
        self.path.write_text("\n".join(str(step) for step in steps) + end * bool(steps))
        self.headway.begin()
        self.now += seconds
        return self.headway.made(saved)


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    return Life(tmp_path, monkeypatch)


def test_a_step_further_than_ever_is_headway(life: Life) -> None:
    """Steps that are done again are not, whatever was saved in them."""
    assert life.made(1, 2, 3)
    assert not life.made(2, 3, saved=True, seconds=2 * RUN_S)
    assert not life.made(2, saved=True, seconds=2 * RUN_S)
    assert life.made(3, 4)


def test_a_program_that_reports_steps_makes_progress_by_steps_alone(life: Life) -> None:
    assert life.made(1)
    assert not life.made(saved=True, seconds=2 * RUN_S)


def test_half_a_line_is_no_step(life: Life) -> None:
    assert life.made(1, 2)
    assert not life.made(2, 35, end="")


def test_without_steps_it_has_to_run_for_a_while_and_save_something(life: Life) -> None:
    """A log is written by a program that ends at once, too."""
    assert not life.made(saved=True, seconds=RUN_S - 1)
    assert not life.made(saved=False, seconds=RUN_S + 1)
    assert life.made(saved=True, seconds=RUN_S + 1)
