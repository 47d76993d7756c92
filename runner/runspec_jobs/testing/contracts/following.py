"""The contract for following a run, as tests: it survives an outage of the service without losing a line."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from runspec_jobs.errors import Unavailable
from runspec_jobs.logs import follow
from runspec_jobs.logs.select import Selection, Selector
from runspec_jobs.provider import State, SupportsLogTimes
from runspec_jobs.testing.contracts.adopting import AdoptingContract
from runspec_jobs.testing.contracts.client import Trials, start_and_read
from runspec_jobs.testing.world import World

LIMIT_S = 240.0


CLOCK = "for n in 1 2 3; do echo at $(date +%s); sleep 2; done\n"
COUNTED = "for n in 1 2 3 4 5 6 7; do echo line $n; done\n"
LAST = Selection(tail=2, grep="line [1-5]")


class FollowingContract(AdoptingContract):
    """The tests of a client while its service does not answer."""

    def test_a_follower_lives_through_an_outage_and_says_so_once(
        self, trials: Trials, world: World
    ) -> None:
        """The outage begins with the first line, and ends once it was reported."""
        outage = world.outage()
        if outage is None:
            pytest.skip("an outage of this service cannot be simulated")
        trial = start_and_read(trials(world.spec(run="echo begun\nsleep 4\necho ended\n")))
        trial.make()
        lines, messages = list[bytes](), list[str]()

        with contextlib.ExitStack() as down:

            def show(line: follow.Line) -> None:
                lines.append(line.text)
                # The outage begins inside a callback, so the very next request meets it.
                if line.text == b"begun":
                    down.enter_context(outage)

            def tell(text: str) -> None:
                messages.append(text)
                down.close()

            status = follow.follow(trial.client, trial.run, show, tell=tell, timeout_s=LIMIT_S)

        assert status.state is State.SUCCEEDED
        assert [line for line in lines if line in (b"begun", b"ended")] == [b"begun", b"ended"]
        assert [line.partition(" since ")[0] for line in messages] == [
            "the service does not answer",
            "the service answers again",
        ]

    def test_a_line_has_the_time_at_which_it_was_printed(
        self, trials: Trials, world: World
    ) -> None:
        """To a second, while the log is followed and afterwards; the job's own clock shows whole seconds."""
        trial = start_and_read(trials(world.spec(run=CLOCK)))
        if not isinstance(trial.client, SupportsLogTimes):
            with pytest.raises(Unavailable, match="no times"):
                next(
                    follow.read_everything(trial.client, trial.run, follow.accept_every, timed=True)
                )
            return
        trial.make()
        lines = list[follow.Line]()

        follow.follow(trial.client, trial.run, lines.append, timed=True, timeout_s=LIMIT_S)
        again = list(
            follow.read_everything(trial.client, trial.run, follow.accept_every, timed=True)
        )

        for read in (lines, again):
            timed = [(line.at, line.text) for line in read if line.text.startswith(b"at ")]
            late = [at - int(text[3:]) for at, text in timed if at is not None]
            assert len(late) == len(timed) == 3
            # `date +%s` cuts off the fraction, and services round theirs.
            assert min(late) > -1.1
            assert max(late) < 2.1

    def test_the_last_lines_that_match_are_shown(self, trials: Trials, world: World) -> None:
        trial = start_and_read(trials(world.spec(run=COUNTED)))
        trial.make()
        trial.wait()

        for followed in (False, True):
            lines = list[bytes]()
            with Selector(LAST, partial(_keep, lines)) as selector:
                if followed:
                    follow.follow(
                        trial.client,
                        trial.run,
                        selector.take_line,
                        caught_up=selector.catch_up,
                        timeout_s=LIMIT_S,
                    )
                else:
                    for line in follow.read_everything(
                        trial.client, trial.run, follow.accept_every
                    ):
                        selector.take_line(line)
                    selector.catch_up()
            assert lines == [b"line 4", b"line 5"]


def _keep(lines: list[bytes], line: follow.Line) -> None:
    lines.append(line.text)
