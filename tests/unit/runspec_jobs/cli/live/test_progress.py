"""What is told while a plan is carried out, where no terminal is."""

from __future__ import annotations

import pytest

from runspec_jobs.api.events import Event
from runspec_jobs.cli.live.progress import ProgressPrinter

EVENTS = [Event("step", "build"), Event("line", "Installed 3 packages"), Event("wait", "its turn")]


@pytest.mark.parametrize(
    ("quiet", "told"),
    [(False, ["build", "  Installed 3 packages", "its turn"]), (True, ["its turn"])],
)
def test_each_event_is_a_line(
    capsys: pytest.CaptureFixture[str], quiet: bool, told: list[str]
) -> None:
    with ProgressPrinter(quiet=quiet) as printer:
        for event in EVENTS:
            printer(event)

    shown = capsys.readouterr().err.splitlines()
    assert [line.removeprefix("runspec: ") for line in shown] == told
