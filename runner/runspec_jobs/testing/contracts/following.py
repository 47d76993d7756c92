"""The contract for following a run, as tests: it survives an outage of the service without losing a line."""

from __future__ import annotations

import contextlib

import pytest

from runspec_jobs.logs import follow
from runspec_jobs.provider import State
from runspec_jobs.testing.contracts.adopting import AdoptingContract
from runspec_jobs.testing.contracts.client import Trials, reading
from runspec_jobs.testing.world import World

LIMIT_S = 240.0


class FollowingContract(AdoptingContract):
    """The tests of a client while its service does not answer."""

    def test_a_follower_lives_through_an_outage_and_says_so_once(
        self, trials: Trials, world: World
    ) -> None:
        """The outage begins with the first line, and ends once it was reported."""
        outage = world.outage()
        if outage is None:
            pytest.skip("an outage of this service cannot be simulated")
        trial = reading(trials(world.spec(run="echo begun\nsleep 4\necho ended\n")))
        trial.make()
        lines, told = list[bytes](), list[str]()

        with contextlib.ExitStack() as down:

            def show(line: follow.Line) -> None:
                lines.append(line.text)
                if line.text == b"begun":
                    down.enter_context(outage)

            def tell(text: str) -> None:
                told.append(text)
                down.close()

            status = follow.follow(trial.client, trial.run, show, tell=tell, timeout_s=LIMIT_S)

        assert status.state is State.SUCCEEDED
        assert [line for line in lines if line in (b"begun", b"ended")] == [b"begun", b"ended"]
        assert [line.partition(" since ")[0] for line in told] == [
            "the service does not answer",
            "the service answers again",
        ]
