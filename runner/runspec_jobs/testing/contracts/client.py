"""The contract of `Client` as tests: each resource is made once, is found, and is deleted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from runspec_jobs.engine import apply
from runspec_jobs.machines.spent import Outcome, Rates, Span, compute_spent, sum_spent
from runspec_jobs.plan.model import FILE, find_marked
from runspec_jobs.provider import (
    Client,
    Conflict,
    Request,
    Response,
    Spec,
    State,
    Status,
    Step,
    SupportsLogs,
    SupportsOutputs,
    SupportsPlaces,
    SupportsProgress,
    SupportsUpload,
)
from runspec_jobs.spec.placeholders import tasks
from runspec_jobs.state.attempt_history import merge_spans
from runspec_jobs.testing.faults import FAULTS, Changing, Flaky, Strike
from runspec_jobs.testing.trial import Quiet, Trial, persist, read_chunks, token
from runspec_jobs.testing.world import FILES, World

WORK_S, CLOCK_S = 2.0, 1.0  # of an attempt; some services report whole seconds
USD_HOUR = 3600.0  # a USD for each second
NOBODY = "nobody-000000"  # a run that never existed
LINES = ["first", "", "  two  spaces ", "%s \\n $HOME `x` 'y'", "grüße ✓", "x" * 5000, "last"]

Trials = Callable[..., Trial]
Wrap = Callable[[Client], Client]


class ClientContract:
    """The tests of a client, which are skipped if there is no service for it."""

    @pytest.fixture
    def trials(self, world: World) -> Iterator[Trials]:
        """Yield a function that makes runs; the runs are destroyed at the end."""
        if not world.answers:
            pytest.skip("there is no service here for its client")
        trials: list[Trial] = []

        def trial(spec: Spec, number: int = 1, wrap: Wrap = lambda client: client) -> Trial:
            trials.append(Trial(world, spec, token(number), wrap))
            return trials[-1]

        yield trial
        for left in trials:
            persist(left.destroy)

    # Resources are found after they are made, and not after they are deleted.

    def test_a_run_is_found_once_it_is_made_ends_well_and_leaves_nothing(
        self, trials: Trials, spec: Spec
    ) -> None:
        trial = trials(spec)
        assert trial.find_all() == {step.id: None for step in trial.plan.steps}

        trial.make()
        assert trial.find_all() == trial.answers()

        status = trial.wait()
        assert (status.state, status.exit_code) == (State.SUCCEEDED, 0), status
        assert trial.client.state(trial.run) == status, "the status of a run changed after its end"

        trial.destroy()
        assert trial.left() == []
        assert trial.client.state(trial.run).state is State.GONE

    def test_another_client_finds_every_step(self, trials: Trials, world: World) -> None:
        """Another process, perhaps on another machine, can continue a run."""
        trial = trials(world.example("single"))
        trial.make()

        other = world.connect(world.facts(world.example("single")))

        assert {step.id: other.find(step) for step in trial.plan.steps} == trial.answers()

    def test_undoing_a_step_twice_succeeds(self, trials: Trials, world: World) -> None:
        trial = trials(world.example(find_largest(world)))
        trial.make()
        trial.wait()
        answers = trial.answers()
        requests = [s.undo for s in reversed(trial.plan.steps) if s.undo is not None]

        for request in requests:
            # Filled in once, because the first call deletes what the second one refers to.
            ready = apply.fill_request(request, answers)
            trial.client.call(ready)
            trial.client.call(ready)

        assert trial.left() == []

    def test_a_run_is_taken_away_while_it_runs(self, trials: Trials, world: World) -> None:
        trial = trials(world.sleeping())
        trial.make()
        trial.until(lambda status: status.state is State.RUNNING)

        trial.destroy()

        assert trial.client.state(trial.run).state is State.GONE

    def test_a_script_is_run_by_the_interpreter_that_its_first_line_names(
        self, trials: Trials, world: World
    ) -> None:
        """/bin/sh may be dash, where `[[` is not found and the condition false."""
        script = "#!/bin/bash\nwords=(one two)\nif [[ ${words[1]} == t* ]]; then exit 7; fi\n"
        trial = trials(world.spec(run=script))
        trial.make()

        assert trial.wait().exit_code == 7

    # A run that does not exist.

    def test_a_run_that_never_was_is_gone(self, trials: Trials, world: World) -> None:
        assert trials(world.example("single")).client.state(NOBODY).state is State.GONE

    def test_ending_a_run_that_never_was_is_no_mistake(self, trials: Trials, world: World) -> None:
        client = trials(world.example("single")).client

        client.cancel(NOBODY)

        assert client.state(NOBODY).state is State.GONE

    def test_a_run_that_never_was_has_no_streams_and_no_outputs(
        self, trials: Trials, world: World
    ) -> None:
        client = trials(world.example("single")).client

        assert not isinstance(client, SupportsLogs) or list(client.streams(NOBODY)) == []
        assert not isinstance(client, SupportsOutputs) or list(client.outputs(NOBODY)) == []

    # How a run ends.

    def test_a_job_that_exits_with_7_has_failed_with_7(self, trials: Trials, world: World) -> None:
        trial = trials(world.printing(["no"], 7))
        trial.make()

        status = trial.wait()

        assert (status.state, status.exit_code) == (State.FAILED, 7)
        assert status.reason, "there is no reason"

    def test_a_job_has_the_exit_code_of_the_node_that_failed_by_itself(
        self, trials: Trials, world: World
    ) -> None:
        """Other nodes may be stopped because of it, and 143 is not the cause."""
        if {"nodes", "limits"} & set(world.refuses):
            pytest.skip("it does not run several nodes")
        trial = trials(world.second_node_failing(3))
        trial.make()

        status = trial.wait()

        assert (status.state, status.exit_code) == (State.FAILED, 3), status

    def test_each_try_is_told_with_its_own_exit_code(self, trials: Trials, world: World) -> None:
        """An attempt that has ended keeps its status from then on."""
        if "limits" in world.refuses:
            pytest.skip("it does not repeat failed attempts")
        trial = trials(world.failing([3, 7]))
        trial.make()

        status = trial.wait()

        assert (status.state, status.exit_code) == (State.FAILED, 7)
        (node,) = status.nodes
        assert node.attempt == 2
        assert [(a.number, a.exit_code, a.reclaimed) for a in node.attempts] == [
            (1, 3, False),
            (2, 7, False),
        ]
        assert all(attempt.reason for attempt in node.attempts), "there is no reason"
        assert trial.client.state(trial.run) == status

    @pytest.mark.parametrize("nodes", [1, 2])
    def test_an_attempt_is_charged_for_the_time_that_it_ran(
        self, trials: Trials, world: World, nodes: int
    ) -> None:
        """By the times that the service reports, and those at which the run was seen; failed attempts are apart."""
        if "limits" in world.refuses or (nodes > 1 and "nodes" in world.refuses):
            pytest.skip("it does not repeat failed attempts, or runs on one node")
        trial, spans = trials(world.failing([3, 0], work_s=WORK_S, nodes=nodes)), list[Span]()
        began_s = time.time()

        def is_over(status: Status) -> bool:
            spans[:] = merge_spans(spans, status, time.time())
            return status.state.terminal

        trial.make()
        status = trial.until(is_over)

        assert status.state is State.SUCCEEDED, status
        spent = compute_spent(spans, Rates(node_usd_hour=USD_HOUR))
        assert list(spent) == [Outcome.SUCCEEDED, Outcome.FAILED]
        whole_s = time.time() - began_s
        # A service that reports whole seconds may be a second off at either end.
        for part in spent.values():
            assert (part.attempts, part.untimed) == (nodes, 0), spans
            assert nodes * (WORK_S - CLOCK_S) <= part.most_usd <= nodes * (whole_s + CLOCK_S), spans
        assert sum_spent(spent).most_usd <= nodes * (whole_s + CLOCK_S), spans

    def test_a_job_can_be_ended(self, trials: Trials, world: World) -> None:
        trial = trials(world.sleeping())
        trial.make()
        trial.until(lambda status: status.state is State.RUNNING)

        status = trial.cancel()

        assert status.state is State.CANCELLED
        assert trial.client.state(trial.run) == status

    def test_ending_a_job_that_has_ended_changes_nothing(
        self, trials: Trials, world: World
    ) -> None:
        trial = trials(world.printing(["done"]))
        trial.make()
        status = trial.wait()

        trial.client.cancel(trial.run)

        assert trial.client.state(trial.run) == status

    # Its logs.

    def test_every_line_is_in_the_log(self, trials: Trials, world: World) -> None:
        trial = start_and_read(trials(world.printing(LINES)))
        trial.make()
        trial.wait()

        log = trial.log().decode().splitlines()

        expected = [line for line in LINES if line or world.blank_lines]
        assert [line for line in log if line in expected] == expected

    def test_the_log_of_a_job_that_failed_is_kept(self, trials: Trials, world: World) -> None:
        trial = start_and_read(trials(world.printing(LINES, 7)))
        trial.make()
        trial.wait()

        assert LINES[-1].encode() in trial.log()

    def test_a_log_read_twice_is_the_same(self, trials: Trials, world: World) -> None:
        """This holds for any position, and for another client."""
        spec = world.printing(LINES)
        trial = start_and_read(trials(spec))
        trial.make()
        trial.wait()
        other = world.connect(world.facts(spec))
        assert isinstance(trial.client, SupportsLogs)
        assert isinstance(other, SupportsLogs)
        (stream,), (two,) = trial.client.streams(trial.run), other.streams(trial.run)

        position: str | None = None
        for chunk in read_chunks(stream):
            assert two.read(position) == chunk == stream.read(position)
            position = chunk.position
        assert list(read_chunks(two)) == list(read_chunks(stream))

    def test_each_task_prints_into_a_stream_of_its_own(self, trials: Trials, world: World) -> None:
        name = "sweep"
        if name in world.refuses:
            pytest.skip("it runs no sweeps")
        spec = world.example(name)
        trial = start_and_read(trials(spec))
        trial.make()
        trial.wait()

        logs = [trial.log(task).decode().split() for task in range(len(tasks(spec)))]

        assert [log[-2:] for log in logs] == [list(values.values()) for values in tasks(spec)]

    def test_each_node_prints_into_a_stream_of_its_own(self, trials: Trials, world: World) -> None:
        if "nodes" in world.refuses:
            pytest.skip("it runs on one node")
        trial = start_and_read(trials(world.example("nodes")))
        trial.make()
        trial.wait()

        assert isinstance(trial.client, SupportsLogs)
        streams = trial.client.streams(trial.run)

        assert [(stream.task, stream.rank) for stream in streams] == [(0, 0), (0, 1)]
        assert [b"hello" in trial.log(0, rank) for rank in range(2)] == [True, True]

    # Its mounts.

    def test_an_incomplete_upload_is_not_found(self, trials: Trials, world: World) -> None:
        """A folder that changes during its upload is not found, and the next upload is complete."""
        if "mounts" in world.refuses:
            pytest.skip("it mounts no folders")
        spec = world.example("mounts")
        trial = trials(spec)
        client, step = trial.client, find_step_with_folder(trial)
        assert isinstance(client, SupportsUpload), "it mounts folders and cannot upload them"
        answers: dict[str, Response] = {}
        for earlier in trial.plan.steps[: trial.plan.steps.index(step)]:
            existing = client.find(earlier)
            answers[earlier.id] = (
                client.call(apply.fill_request(earlier.do, answers))
                if existing is None
                else existing
            )
        request, bundle = apply.fill_request(step.do, answers), world.bundles(spec)["code"]

        for at in range(len(bundle.files)):
            with pytest.raises(Conflict):
                client.stage(request, Changing(bundle, at), Quiet().progress(""))
            # The journal would take what `find` returns as the complete folder.
            assert client.find(step) is None
        answer = client.stage(request, bundle, Quiet().progress(""))

        assert client.find(step) == answer
        trial.make()
        assert trial.wait().state is State.SUCCEEDED
        assert not isinstance(client, SupportsLogs) or FILES["hello.txt"] in trial.log()

    def test_a_client_that_talks_takes_a_listener(self, trials: Trials, world: World) -> None:
        trial = trials(world.example("single"))
        if not isinstance(trial.client, SupportsProgress):
            pytest.skip("it reports no progress")
        said: list[str] = []

        trial.client.listen(said.append)
        trial.make()

        assert [line for line in said if not line.strip()] == []

    def test_places_of_logs_and_outputs_belong_to_one_run(
        self, trials: Trials, world: World
    ) -> None:
        client = trials(world.example("single")).client
        if not isinstance(client, SupportsPlaces):
            pytest.skip("it does not know where logs and outputs are")

        places, other = client.places("one-aaaaaa"), client.places("other-bbbbbb")

        assert places.logs
        assert "one-aaaaaa" in places.outputs
        assert other == type(places)(
            *(text.replace("one-aaaaaa", "other-bbbbbb") for text in places)
        )

    # Faults.

    @pytest.mark.parametrize("fault", FAULTS)
    def test_each_thing_is_made_once_and_taken_away_wherever_a_call_goes_wrong(
        self, trials: Trials, world: World, fault: str
    ) -> None:
        """The test injects the fault into every request that makes or deletes a run, one at a time."""
        assert_made_once_and_taken_away(trials, world, FAULTS[fault])

    def test_each_thing_is_made_once_and_taken_away_wherever_the_service_fails(
        self, trials: Trials, world: World
    ) -> None:
        if not world.faults():
            pytest.skip("this service cannot be told to fail")
        for number, (name, strike) in enumerate(world.faults().items(), 1):
            reaches = partial(world.reaches, name)
            assert_made_once_and_taken_away(trials, world, strike, number, reaches)


def assert_made_once_and_taken_away(
    trials: Trials,
    world: World,
    strike: Strike,
    series: int = 0,
    reaches: Callable[[Request], bool] = lambda request: True,
) -> None:
    """Inject the fault *strike* into each request in turn that it *reaches*, both of making and of deleting a run.

    Services remember the names of jobs that have ended, so each *series* has runs of its own.
    """
    spec = world.example(find_largest(world))
    trial, flaky = make_flaky_trial(trials, spec, 1000 * series)
    trial.make()
    making, undoing = len(flaky.sent), sum(step.undo is not None for step in trial.plan.steps)
    trial.destroy()
    wanted = [at for at, request in enumerate(flaky.sent) if reaches(request)]
    assert wanted, "the fault can affect no request"
    # One run is struck twice: in a request that makes it and in a request that deletes it.
    turns = {at if at < making else at - making for at in wanted}
    for at in sorted(turns):
        trial, flaky = make_flaky_trial(trials, spec, 1000 * series + at + 1)

        flaky.next(at, strike)
        # As a user would: the command is repeated until it succeeds.
        persist(trial.make)
        made = Counter((r.service, r.operation) for r in flaky.sent)
        # No request was carried out twice, which would show as a count above that of the plan.
        assert made <= Counter((s.do.service, s.do.operation) for s in trial.plan.steps)
        assert trial.find_all() == trial.answers()
        assert trial.wait().state is State.SUCCEEDED
        assert not isinstance(trial.client, SupportsLogs) or trial.log().count(b"hello") == 1
        assert flaky.begun > at or at >= making, "this request was never sent"

        flaky.next(at, strike)
        persist(trial.destroy)
        assert trial.left() == []
        assert flaky.begun > at or at >= undoing, "this request was never sent"


def make_flaky_trial(trials: Trials, spec: Spec, number: int) -> tuple[Trial, Flaky]:
    made: list[Flaky] = []

    def wrap(client: Client) -> Client:
        made.append(Flaky(client))
        return made[0]

    return trials(spec, number, wrap), made[0]


def find_largest(world: World) -> str:
    """Return the example with the most steps, which uploads a folder if the provider can."""
    return "single" if "mounts" in world.refuses else "mounts"


def find_step_with_folder(trial: Trial) -> Step:
    return next(step for step in trial.plan.steps if list(find_marked(step.do.params, FILE)))


def start_and_read(trial: Trial) -> Trial:
    if not isinstance(trial.client, SupportsLogs):
        pytest.skip("it reads no logs")
    return trial
