"""Calls at once, as of uploads."""

from __future__ import annotations

import pytest

from runspec_agent.base.failure import Failure
from runspec_agent.store import parallel


def test_after_the_first_failure_no_other_call_begins() -> None:
    """A store that refuses one of a thousand uploads is not asked for the others."""
    begun: list[int] = []

    def do(number: int) -> None:
        begun.append(number)
        if number == 3:
            raise Failure("the store refuses it")

    with pytest.raises(Failure, match="the store refuses it"):
        parallel.each(do, range(1000), at_once=1)

    assert begun == [0, 1, 2, 3]
