"""A new node for a shell: its log is shown until it waits for the shell, or has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runspec_jobs.api.nodes import await_shell
from runspec_jobs.logs.follow import Line
from runspec_jobs.plan.shell_job import READY
from runspec_jobs.provider import State, Status

ENDED = Status(State.FAILED, "it has ended")


class Run:
    """A run whose log has *lines*, one in each pass, after which it has ended."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines

    def follow(
        self, on_part: Callable[[Line], None], *, sleep: Callable[[float], None], **how: Any
    ) -> Status:
        for line in self.lines:
            on_part(Line(0, 0, line.encode()))
            sleep(1.0)
        return ENDED


@pytest.mark.parametrize(
    ("lines", "shown", "status"),
    [
        (["installing", READY, "a line of the shell"], [b"installing"], None),
        (["installing", "it fails"], [b"installing", b"it fails"], ENDED),
    ],
    ids=["ready", "ended"],
)
def test_the_log_is_shown_until_the_node_is_ready_or_has_ended(
    lines: list[str], shown: list[bytes], status: Status | None
) -> None:
    parts: list[bytes] = []
    run: Any = Run(*lines)

    found = await_shell(run, lambda line: parts.append(line.text), sleep=lambda seconds: None)

    assert (found, parts) == (status, shown)
