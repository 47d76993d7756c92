"""The contract of clients that can stop single tasks, as tests: these tasks end, and the others go on."""

from __future__ import annotations

import time
from typing import Any

import pytest

from runspec_jobs.provider import State, Status, SupportsLogs, SupportsOutputs, SupportsTaskStop
from runspec_jobs.testing.contracts.client import NOBODY, Trials
from runspec_jobs.testing.contracts.entering import EnteringContract
from runspec_jobs.testing.trial import PAUSE_S, Trial
from runspec_jobs.testing.world import World

# The first task ends by itself; the others do not.
SCRIPT = """\
echo "begun"
[ "${sweep.n}" = first ] || sleep 600
"""


# The first task ends by itself; the others write a file when they receive SIGTERM.
SAVES = """\
trap 'echo told > "${outputs.made}/told"; exit 0' TERM
echo "begun"
while [ "${sweep.n}" != first ]; do sleep 0.1; done
"""
MADE = {"name": "made", "path": "/job/made"}


class StoppingContract(EnteringContract):
    """The tests of clients that have `SupportsTaskStop`."""

    def test_tasks_that_are_stopped_end_and_the_run_succeeds_with_the_others(
        self, trials: Trials, world: World
    ) -> None:
        trial = start_sweep(trials, world, ["first", "second", "third"])
        trial.make()
        wait_for_print(trial, 1)

        status = stop_tasks(trial, {1, 2})

        assert (status.state, status.exit_code) == (State.SUCCEEDED, 0)
        assert {node.task: node.state for node in status.nodes} == {
            0: State.SUCCEEDED,
            1: State.CANCELLED,
            2: State.CANCELLED,
        }
        assert trial.log(0).split() == [b"begun"]

    def test_a_task_that_is_stopped_while_it_runs_is_told_and_what_it_wrote_is_saved(
        self, trials: Trials, world: World
    ) -> None:
        trial = start_sweep(trials, world, ["first", "second"], run=SAVES, outputs=[MADE])
        if not isinstance(trial.client, SupportsOutputs):
            pytest.skip("it cannot read outputs")
        trial.make()
        wait_for_print(trial, 1)

        status = stop_tasks(trial, {1})

        assert {node.task: node.state for node in status.nodes} == {
            0: State.SUCCEEDED,
            1: State.CANCELLED,
        }
        (file,) = trial.client.outputs(trial.run)
        with file.open() as stream:
            assert (file.task, file.path, stream.read()) == (1, "told", b"told\n")

    def test_a_run_all_of_whose_tasks_are_stopped_is_cancelled(
        self, trials: Trials, world: World
    ) -> None:
        trial = start_sweep(trials, world, ["second", "third"])
        trial.make()

        assert stop_tasks(trial, {0, 1}).state is State.CANCELLED

    def test_to_stop_what_has_ended_or_never_was_changes_nothing(
        self, trials: Trials, world: World
    ) -> None:
        trial = start_sweep(trials, world, ["first", "first"])
        trial.make()
        ended = trial.wait()
        assert isinstance(trial.client, SupportsTaskStop)

        trial.client.stop(trial.run, {1})
        trial.client.stop(NOBODY, {0})

        assert ended.state is State.SUCCEEDED
        assert trial.client.state(trial.run).state is State.SUCCEEDED


def start_sweep(
    trials: Trials, world: World, values: list[str], run: str = SCRIPT, **more: Any
) -> Trial:
    """Return a run of a sweep over *values*; skip the test if the client cannot stop single tasks."""
    if "sweep" in world.refuses:
        pytest.skip("it runs no sweeps")
    trial = trials(world.spec(sweep={"n": values}, run=run, retry={"attempts": 2}, **more))
    if not isinstance(trial.client, SupportsTaskStop):
        pytest.skip("it cannot stop single tasks")
    return trial


def wait_for_print(trial: Trial, task: int) -> None:
    assert isinstance(trial.client, SupportsLogs), (
        "what cannot be followed cannot be stopped in time"
    )
    end = time.monotonic() + trial.world.limit_s
    while not trial.log(task):
        assert time.monotonic() < end, f"task {task} has not begun"
        time.sleep(PAUSE_S)


def stop_tasks(trial: Trial, tasks: set[int]) -> Status:
    """Request repeatedly that *tasks* stop, until the run has ended, and return its status."""
    assert isinstance(trial.client, SupportsTaskStop)
    end = time.monotonic() + trial.world.limit_s
    while not (status := trial.client.state(trial.run)).state.terminal:
        assert time.monotonic() < end, f"{status} after {trial.world.limit_s:g} s"
        trial.client.stop(trial.run, tasks)
        time.sleep(PAUSE_S)
    return status
