"""The contract for outputs as tests: every byte is saved, and has a plain name when the run has ended."""

from __future__ import annotations

import pytest

from runspec_jobs.provider import OutputFile, State, SupportsOutputs, SupportsPublishing
from runspec_jobs.testing.contracts.client import ClientContract, Trials
from runspec_jobs.testing.trial import Trial
from runspec_jobs.testing.world import World

EMPTY, NOTE = "made/0/0/empty", "made/0/0/.runspec/published"  # of `World.writing`


class OutputsContract(ClientContract):
    """The tests of clients whose jobs write outputs."""

    @pytest.mark.parametrize("exit_code", [0, 7])
    def test_outputs_come_back_byte_for_byte(
        self, trials: Trials, world: World, exit_code: int
    ) -> None:
        if "outputs" in world.refuses:
            pytest.skip("it keeps no outputs")
        trial = trials(world.writing(exit_code))
        assert isinstance(trial.client, SupportsOutputs), "it saves outputs and cannot read them"
        trial.make()
        trial.wait()

        files = [f for f in trial.client.outputs(trial.run) if f.kind == "file"]

        assert [(f.output, f.task, f.rank) for f in files] == [("made", 0, 0)] * len(files)
        assert {file.path: read_content(file) for file in files} == world.written()
        assert {f.path: f.bytes for f in files} == {k: len(v) for k, v in world.written().items()}
        assert [f.path for f in files] == sorted(world.written())

    @pytest.mark.parametrize("exit_code", [0, 7])
    def test_a_run_that_has_ended_has_plain_names_and_is_not_copied_twice(
        self, trials: Trials, world: World, exit_code: int
    ) -> None:
        """Its agents published it, so a client copies nothing: a file that was deleted since is not restored."""
        if "outputs" in world.refuses:
            pytest.skip("it keeps no outputs")
        trial = trials(world.writing(exit_code))
        trial.make()
        trial.wait()
        client = get_publisher(trial)

        assert list(client.publish(trial.run)) == []
        plain = dict(world.plain(trial.client, trial.run))
        world.discard(trial.client, trial.run, [EMPTY])
        assert list(client.publish(trial.run)) == []

        assert plain == {f"made/0/0/{path}": data for path, data in world.written().items()}
        assert EMPTY not in world.plain(trial.client, trial.run)

    def test_a_client_publishes_what_a_killed_agent_did_not(
        self, trials: Trials, world: World
    ) -> None:
        """The test simulates an agent that was killed after some copies of its last save and before the note."""
        if "outputs" in world.refuses:
            pytest.skip("it keeps no outputs")
        trial = trials(world.writing())
        trial.make()
        trial.wait()
        client = get_publisher(trial)
        world.discard(trial.client, trial.run, [EMPTY, NOTE])

        assert list(client.publish(trial.run)) == []

        plain = world.plain(trial.client, trial.run)
        assert plain == {f"made/0/0/{path}": data for path, data in world.written().items()}

    def test_an_output_is_kept_of_all_nodes_each_by_itself_or_of_the_first(
        self, trials: Trials, world: World
    ) -> None:
        """The default is all nodes."""
        if {"nodes", "outputs"} & set(world.refuses):
            pytest.skip("it keeps no outputs of several nodes")
        trial = trials(world.writing_on_all())
        assert isinstance(trial.client, SupportsOutputs), "it saves outputs and cannot read them"
        trial.make()
        assert trial.wait().state is State.SUCCEEDED

        files = trial.client.outputs(trial.run)

        of_all = [(name, rank) for name in ("every", "usual") for rank in range(2)]
        assert [(f.output, f.rank, f.path, read_content(f)) for f in files] == [
            (name, rank, "rank", f"{rank}\n".encode())
            for name, rank in sorted([*of_all, ("lead", 0)])
        ]


def read_content(file: OutputFile) -> bytes:
    with file.open() as opened:
        return opened.read()


def get_publisher(trial: Trial) -> SupportsPublishing:
    """Return the client of a run that has ended; skip the test if its saves have plain names from the start."""
    assert isinstance(trial.client, SupportsOutputs), "it saves outputs and cannot read them"
    files = list(trial.client.outputs(trial.run))
    assert files, "nothing was saved"
    if not any("/.runspec/objects/" in f"/{file.key}" for file in files):
        pytest.skip("its jobs save to plain names, or one tar")
    if not isinstance(trial.client, SupportsPublishing):
        pytest.skip("its client publishes nothing yet")
    return trial.client
