"""The contract for reading about a run, as tests: reads change nothing, and do not wait."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable

import pytest

from runspec_jobs.provider import (
    Client,
    SupportsAdoption,
    SupportsLogs,
    SupportsMembershipChanges,
    SupportsOutputs,
    SupportsUsage,
)
from runspec_jobs.testing.contracts.client import LINES, Trials, start_and_read
from runspec_jobs.testing.contracts.usage import UsageContract
from runspec_jobs.testing.trial import Trial
from runspec_jobs.testing.world import World


class ReadingContract(UsageContract):
    """The tests of what a client does while it reads."""

    def test_reading_changes_nothing(self, trials: Trials, world: World) -> None:
        """This holds while the run is alive and when it has ended; `reconcile` may change something."""
        trial = trials(world.printing(LINES))
        trial.make()
        before = world.changes(trial.run)
        if before is None:
            pytest.skip("it is not known what changes this service")
        other = world.connect(world.facts(trial.spec))

        trial.until(lambda status: read_all(trial.client, trial) and status.state.terminal)
        read_all(other, trial)
        read_all(trial.client, trial)

        assert world.changes(trial.run) == before

    def test_reading_a_log_does_not_sleep(self, trials: Trials, world: World) -> None:
        """Pauses between reads are the reader's: it also follows other streams, and may have a time limit."""
        spec = world.printing(LINES)
        trial = start_and_read(trials(spec))
        trial.make()
        trial.wait()
        other = world.connect(world.facts(spec))
        assert isinstance(trial.client, SupportsLogs)
        assert isinstance(other, SupportsLogs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "sleep", refuse_here(time.sleep))
            logs = [read_once(client, trial.run) for client in (trial.client, other)]

        assert all(trial.log().startswith(data) for data in logs)


def read_all(client: Client, trial: Trial) -> bool:
    """Have *client* read everything that it can about the run of *trial*; return True."""
    client.state(trial.run)
    for step in trial.plan.steps:
        client.find(step)
    if isinstance(client, SupportsLogs):
        read_once(client, trial.run)
    if isinstance(client, SupportsOutputs):
        list(client.outputs(trial.run))
    if isinstance(client, SupportsMembershipChanges):
        client.changes(trial.run)
    if isinstance(client, SupportsUsage):
        client.usage(trial.run, None)
    if isinstance(client, SupportsAdoption):
        client.kept_state(trial.run)
        client.kept_runs()
    return True


def refuse_here(sleep: Callable[[float], None]) -> Callable[[float], None]:
    """Return *sleep*, but failing in this thread; emulators may run in other threads.

    `subprocess` may sleep, because it waits with it for a program that reads the logs.
    """
    here = threading.get_ident()

    def refuse(seconds: float) -> None:
        caller = inspect.stack(0)[1].frame.f_globals["__name__"]
        ours = threading.get_ident() == here and caller != "subprocess"
        assert not ours, f"{caller} slept for {seconds} s"
        sleep(seconds)

    return refuse


def read_once(client: SupportsLogs, run: str) -> bytes:
    """Return what the first stream of *run* delivers without a pause."""
    data, position = b"", None
    for stream in list(client.streams(run))[:1]:
        while (chunk := stream.read(position)).data:
            data, position = data + chunk.data, chunk.position
    return data
