"""A batch script that Slurm would refuse for its size is refused by the plan."""

from __future__ import annotations

import re

import pytest

from runspec_slurm import check
from tests.support.slurm.specs import facts, problems, spec

LIMIT = 100_000


def test_a_script_of_exactly_the_most_bytes_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "MOST_SCRIPT_BYTES", LIMIT)

    def told(letters: int) -> str:
        wanted = spec(env={"LARGE": "x" * letters})
        found = problems(wanted, facts(wanted))
        return " ".join(p.what for p in found if "batch script" in p.what)

    said = re.match(r"the batch script has ([0-9,]+) bytes", told(LIMIT))
    assert said is not None
    letters = LIMIT - (int(said[1].replace(",", "")) - LIMIT)

    assert told(letters) == ""
    assert f"has {LIMIT + 1:,} bytes" in told(letters + 1)
