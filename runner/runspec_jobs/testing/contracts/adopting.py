"""The contract for adopted runs, as tests: another machine can do the same with them as the first one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import State, SupportsAdoption, SupportsLogs, SupportsOutputs
from runspec_jobs.testing.contracts.client import Trials
from runspec_jobs.testing.contracts.machines import MachinesContract
from runspec_jobs.testing.contracts.outputs import read_content
from runspec_jobs.testing.trial import Trial, persist
from runspec_jobs.testing.world import EXAMPLES, World

MADE = {"name": "made", "path": "/job/made"}
Keeping = Callable[..., Trial]


class AdoptingContract(MachinesContract):
    """The tests of clients that have `SupportsAdoption`."""

    @pytest.fixture
    def keeping(
        self, trials: Trials, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Keeping:
        """Return a function that makes runs with their state in the store, as seen from another machine."""
        if not isinstance(trials(world.example("single")).client, SupportsAdoption):
            pytest.skip("its runs cannot be adopted")
        # Another state folder makes this process another machine, as far as records go.
        monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another machine"))

        def trial(number: int = 2, **fields: Any) -> Trial:
            made_trial = trials(world.spec(**fields), number)
            made_trial.keep(world.text(**fields))
            return made_trial

        return trial

    def test_another_machine_adopts_a_run_that_has_ended(
        self, keeping: Keeping, world: World
    ) -> None:
        """The log and outputs are readable, and each machine can destroy the run after the other did."""
        more = {} if "outputs" in world.refuses else {"outputs": [MADE]}
        made = 'echo 1 >"${outputs.made}/one"\n' if more else ""
        trial = keeping(run=f"echo hello\n{made}", **more)
        trial.make()
        status = trial.wait()

        other = trial.adopted()

        assert (status.state, other.wait()) == (State.SUCCEEDED, status)
        assert other.answers().keys() == trial.answers().keys()
        assert not isinstance(other.client, SupportsLogs) or other.log().split() == [b"hello"]
        if more:
            assert isinstance(other.client, SupportsOutputs)
            files = {f.path: read_content(f) for f in other.client.outputs(other.run)}
            assert files == {"one": b"1\n"}
        other.destroy()
        trial.destroy()
        assert trial.left() == []

    def test_two_machines_hold_a_run_that_is_alive_and_both_end_it(self, keeping: Keeping) -> None:
        trial = keeping(run="echo begun\nexec sleep 600\n")
        trial.make()
        other = trial.adopted()
        trial.until(lambda status: status.state is State.RUNNING)

        assert other.cancel().state is State.CANCELLED
        assert trial.wait().state is State.CANCELLED

        with ThreadPoolExecutor(2) as pool:
            # Both at once: each has to bear that the other deletes the same resources.
            for done in [pool.submit(persist, trial.destroy_run) for trial in (trial, other)]:
                done.result()
        assert [trial.client.state(trial.run).state for trial in (trial, other)] == [State.GONE] * 2
        trial.destroy()
        other.destroy()
        assert trial.left() == []

    @pytest.mark.parametrize("name", ["single", "sweep"])
    def test_destroy_deletes_the_stored_state_of_a_run(
        self, keeping: Keeping, world: World, name: str
    ) -> None:
        if name in world.refuses:
            pytest.skip(f"it runs no '{name}'")
        trial = keeping(**EXAMPLES[name])
        store = world.connect(trial.facts)
        assert isinstance(store, SupportsAdoption)
        trial.make()
        trial.wait()
        assert trial.run in store.kept_runs()

        trial.destroy()

        assert store.kept_state(trial.run) is None
        assert trial.run not in store.kept_runs()

    def test_the_stored_state_contains_no_secret(
        self, keeping: Keeping, world: World, canary: str
    ) -> None:
        if "secrets" in world.refuses:
            pytest.skip("it takes no secrets")
        trial = keeping(secrets={"TOKEN": "token"}, run='test -n "$TOKEN"')
        store = world.connect(trial.facts)
        assert isinstance(store, SupportsAdoption)
        trial.make()

        kept = store.kept_state(trial.run)

        assert kept is not None
        assert b"TOKEN" in kept
        # Everybody who may read the store can read this state.
        assert canary.encode() not in kept
        trial.wait()
