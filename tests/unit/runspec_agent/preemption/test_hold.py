"""Whose end waits for machines that are to be taken away: the first node's alone, since it is the task's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runspec_agent.base.job_env import STOPPED
from runspec_agent.preemption.hold import GOES, PreemptionHold


class Notes:
    """A store in which node 2 has said that its machine goes, once it is looked for."""

    def __init__(self) -> None:
        self.looked = 0

    def listing(self, prefix: str) -> list[Any]:
        self.looked += 1
        return [SimpleNamespace(key=prefix + "2")]

    def get(self, key: str) -> bytes:
        return GOES


@pytest.mark.parametrize(("rank", "ends", "looks"), [(0, STOPPED, 1), (1, 3, 0), (2, 3, 0)])
def test_a_failure_beside_a_machine_that_goes_is_excused_on_the_first_node_alone(
    rank: int, ends: int, looks: int
) -> None:
    notes: Any = Notes()
    told: Any = SimpleNamespace(stopping=True)  # so that nobody waits here

    found = PreemptionHold(notes, "taken/", rank, lambda text: None).excused(3, told)

    assert (found, notes.looked) == (ends, looks)
