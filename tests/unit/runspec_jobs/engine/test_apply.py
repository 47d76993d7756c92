"""Carrying out a plan: each thing is made once, whatever the service answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.engine import apply
from runspec_jobs.errors import AlreadyExists, Conflict, NoAnswer, RemoteError, UnknownOutcome
from runspec_jobs.plan.model import Plan
from runspec_jobs.provider import Request, Response, Scope, State, Status, Step
from runspec_jobs.state.journal import Journal


class World:
    """A service that remembers what it made and fails as it is told, call by call."""

    def __init__(self, *faults: str) -> None:
        self.faults = list(faults)
        self.made: list[str] = []
        self.calls: list[Request] = []
        self.lag = 0  # looks until what was made is listed
        self.states = [State.RUNNING]
        self.now = 0.0

    def call(self, request: Request) -> Response:
        self.calls.append(request)
        fault = self.faults.pop(0) if self.faults else "ok"
        if fault == "refused":
            raise RemoteError("refused")
        if fault == "throttled":
            raise RemoteError("slow down", transient=True)
        if fault.startswith("busy for "):
            asked_s = float(fault.removeprefix("busy for "))
            raise RemoteError("slow down", transient=True, retry_after_s=asked_s)
        if fault == "failed, and may be repeated":
            raise NoAnswer("500", transient=True)
        if fault == "lost before":
            raise NoAnswer("time-out")
        self._do(request)
        if fault == "lost after":
            raise NoAnswer("time-out")
        return self._answer(request)

    def _do(self, request: Request) -> None:
        if request.operation == "make":
            self.made.append(request.params["name"])
        elif request.params["name"] in self.made:
            self.made.remove(request.params["name"])

    def _answer(self, request: Request) -> Response:
        return {"arn": f"arn:{request.params['name']}"}

    def find(self, step: Step) -> Response | None:
        if self.lag:
            self.lag -= 1
            return None
        return self._answer(step.do) if step.do.params["name"] in self.made else None

    def settled(self, step: Step) -> bool:
        return True

    def state(self, run: str) -> Status:
        return Status(self.states.pop(0) if len(self.states) > 1 else self.states[0])

    def cancel(self, run: str) -> None:
        self.calls.append(Request("svc", "cancel", {"run": run}))
        self.states = [State.CANCELLED]


class Silent:
    def step(self, title: str) -> None: ...

    def progress(self, title: str) -> Any:
        return lambda done, whole: None


class Told(Silent):
    """A reporter that keeps the titles of steps."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    def step(self, title: str) -> None:
        self.titles.append(title)


def request(operation: str, name: Any) -> Request:
    return Request("svc", operation, {"name": name})


PLAN = Plan(
    "fake",
    "job-abcdef",
    "",
    (
        Step("queue", "queue", Scope.SITE, request("make", "q"), request("drop", "q"), 1.0),
        Step("job", "job", Scope.RUN, request("make", "j"), request("drop", "j"), 1.0),
    ),
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path)
    yield opened
    opened.close()


def hands(world: World) -> apply.ApplyContext:
    def sleep(seconds: float) -> None:
        world.now += seconds

    return apply.ApplyContext(world, Silent(), {}, sleep, lambda: world.now)


class Keeping(World):
    """A service whose store keeps the states of runs."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.kept: list[tuple[str, bytes, tuple[str, ...]]] = []
        self.keeps = ["ok"]

    def keep_state(self, run: str, content: bytes) -> None:
        if self.keeps.pop(0) == "lost":
            raise NoAnswer("time-out")
        self.kept.append((run, content, tuple(self.made)))

    def kept_state(self, run: str) -> bytes | None:
        return None

    def kept_runs(self) -> list[str]:
        return []


def keeping(world: World) -> apply.ApplyContext:
    return hands(world)._replace(state=b"state")


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("0", 0.5), ("86400", 60.0)])
def test_a_busy_service_is_asked_again_after_the_pause_that_it_asks_for(
    asked: str, waited: float, journal: Journal
) -> None:
    world = World(f"busy for {asked}")

    apply.make(PLAN, journal, hands(world))

    assert (world.made, world.now) == (["q", "j"], waited)


def test_a_request_that_failed_at_the_service_and_names_what_it_makes_is_sent_again(
    journal: Journal,
) -> None:
    world = World("ok", "failed, and may be repeated", "ok")

    apply.make(PLAN, journal, hands(world))

    assert world.made == ["q", "j"]


def test_a_service_that_stays_broken_ends_apply_after_some_attempts(journal: Journal) -> None:
    world = World(*["failed, and may be repeated"] * 100)

    with pytest.raises(UnknownOutcome, match="no answer"):
        apply.make(PLAN, journal, hands(world))

    assert len(world.calls) == apply.ATTEMPTS


def test_cancelling_is_repeated_while_the_service_is_busy(journal: Journal) -> None:
    world = World()
    apply.make(PLAN, journal, hands(world))
    refusals, ends = [RemoteError("slow down", transient=True, retry_after_s=3)], world.cancel

    def cancel(run: str) -> None:
        if refusals:
            raise refusals.pop()
        ends(run)

    world.cancel = cancel  # type: ignore[method-assign]  # one method of a stand-in

    assert apply.cancel(PLAN, journal, hands(world)).state is State.CANCELLED
    assert 3 <= world.now < 4  # and a look whether it has ended


def test_the_state_is_kept_before_anything_of_the_run_is_made(journal: Journal) -> None:
    world = Keeping()

    apply.make(PLAN, journal, keeping(world))

    assert world.kept == [("job-abcdef", b"state", ("q",))]
    assert world.made == ["q", "j"]


def test_no_step_is_sent_before_the_state_is_in_the_store(journal: Journal) -> None:
    """Its undo takes away what is kept, so it counts as begun."""
    world = Keeping()
    world.keeps = ["lost", "ok"]

    with pytest.raises(UnknownOutcome):
        apply.make(PLAN, journal, keeping(world))

    assert (world.made, journal.memory.begun) == (["q"], {"queue", "job"})
    apply.make(PLAN, journal, keeping(world))
    assert (world.made, len(world.kept)) == (["q", "j"], 1)


def test_a_store_that_keeps_no_states_is_given_none(journal: Journal) -> None:
    world = World()

    apply.make(PLAN, journal, keeping(world))

    assert world.made == ["q", "j"]


def answers(journal: Journal) -> Mapping[str, Response]:
    return journal.memory.answers


def test_every_step_is_made_once_and_its_answer_kept(journal: Journal) -> None:
    world = World()

    apply.make(PLAN, journal, hands(world))

    assert world.made == ["q", "j"]
    assert answers(journal) == {"queue": {"arn": "arn:q"}, "job": {"arn": "arn:j"}}


def test_a_second_make_sends_nothing(journal: Journal) -> None:
    world = World()
    apply.make(PLAN, journal, hands(world))
    before = len(world.calls)

    apply.make(PLAN, journal, hands(world))

    assert len(world.calls) == before


def test_a_shared_thing_that_is_there_is_adopted(journal: Journal) -> None:
    world = World()
    world.made = ["q"]

    apply.make(PLAN, journal, hands(world))

    assert world.made == ["q", "j"]


class Shared(World):
    """A service whose queue another machine makes, or takes away, between our look and our call."""

    def __init__(self, refusal: type[RemoteError], goes_after: int | None, other: bool) -> None:
        super().__init__()
        self.refusal, self.left, self.other = refusal, goes_after, other
        self.looks = 0

    def call(self, request: Request) -> Response:
        if request.params["name"] == "q" and self.left != 0:
            self.left = None if self.left is None else self.left - 1
            raise self.refusal("Object already exists")
        return super().call(request)

    def find(self, step: Step) -> Response | None:
        self.looks += 1
        if step.id != "queue" or self.looks == 1 or self.left is not None:
            return super().find(step)
        if self.other:
            raise Conflict("q is there already, and its size is another")
        return self._answer(step.do)


@pytest.mark.parametrize("refusal", [RemoteError, AlreadyExists])
def test_a_shared_thing_that_another_machine_made_meanwhile_is_adopted(
    journal: Journal, refusal: type[RemoteError]
) -> None:
    """Whatever words the service refuses it with."""
    world = Shared(refusal, None, other=False)

    apply.make(PLAN, journal, hands(world))

    assert world.made == ["j"]
    assert answers(journal)["queue"] == {"arn": "arn:q"}


def test_a_shared_thing_that_is_being_taken_away_is_waited_for_and_made_anew(
    journal: Journal,
) -> None:
    world = Shared(AlreadyExists, 60, other=False)

    apply.make(PLAN, journal, hands(world))

    assert world.made == ["q", "j"]
    assert 60 < world.now < 60 * apply.LONGEST_LOOK_S


def test_a_shared_thing_that_neither_comes_nor_goes_is_not_waited_for_for_ever(
    journal: Journal,
) -> None:
    world = Shared(AlreadyExists, -1, other=False)

    with pytest.raises(AlreadyExists):
        apply.make(PLAN, journal, hands(world))

    assert apply.SETTLED_S < world.now < apply.SETTLED_S + 2 * apply.LONGEST_LOOK_S


def test_a_final_refusal_means_that_the_step_was_not_made(journal: Journal) -> None:
    """What was taken away meanwhile is asked for again, and that is refused: then nothing is there to be looked for."""
    world = Shared(AlreadyExists, 1, other=False)
    world.faults = ["refused"]

    with pytest.raises(RemoteError, match="refused"):
        apply.make(PLAN, journal, hands(world))

    assert journal.memory.begun == set()
    assert journal.memory.refused == "refused"


def test_something_else_that_has_the_name_of_a_shared_thing_is_a_conflict(
    journal: Journal,
) -> None:
    with pytest.raises(Conflict, match="its size is another"):
        apply.make(PLAN, journal, hands(Shared(AlreadyExists, None, other=True)))


@pytest.mark.parametrize("at", [0, 1])
def test_a_lost_reply_is_found_and_not_made_again(journal: Journal, at: int) -> None:
    world = World(*["ok"] * at, "lost after")

    apply.make(PLAN, journal, hands(world))

    assert world.made == ["q", "j"]
    assert len(world.calls) == 2


class Reconciled(World):
    """A service with requests that a run may need later."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.reconciled: list[tuple[str, ...]] = []  # what was made by then, for each request

    def reconcile(self, run: str) -> list[str]:
        assert run == PLAN.run
        self.reconciled.append(tuple(self.made))
        return ["ended a second job"]


@pytest.mark.parametrize(
    ("faults", "times"), [((), 0), (("lost after",), 0), (("ok", "lost after"), 1)]
)
def test_a_run_is_reconciled_when_its_job_was_found_and_not_submitted(
    journal: Journal, faults: tuple[str, ...], times: int
) -> None:
    """There may be a second job of it."""
    world, told = Reconciled(*faults), Told()

    apply.make(PLAN, journal, hands(world)._replace(tell=told))

    assert world.reconciled == [("q", "j")] * times
    assert told.titles == ["queue", "job", *["ended a second job"] * times]


def test_a_run_that_was_submitted_before_a_crash_is_reconciled(journal: Journal) -> None:
    world = Reconciled("ok", "lost after")
    world.lag = 1000
    with pytest.raises(UnknownOutcome):
        apply.make(PLAN, journal, hands(world))
    world.lag = 0

    apply.make(PLAN, journal, hands(world))

    assert world.reconciled == [("q", "j")]


def test_cancel_reconciles_the_run_when_it_has_ended(journal: Journal) -> None:
    world = Reconciled()
    apply.make(PLAN, journal, hands(world))

    apply.cancel(PLAN, journal, hands(world))
    apply.cancel(PLAN, journal, hands(world))

    assert len(world.reconciled) == 1, "a run whose end is in the journal needs no more"


def test_a_list_that_lags_is_asked_until_it_must_know(journal: Journal) -> None:
    world = World("ok", "lost after")
    world.lag = 5  # the first look is for the shared queue

    apply.make(PLAN, journal, hands(world))

    assert world.made == ["q", "j"]


def test_a_lost_call_is_an_unknown_outcome_and_the_same_again_is_safe(journal: Journal) -> None:
    world = World("ok", "lost before")

    with pytest.raises(UnknownOutcome) as caught:
        apply.make(PLAN, journal, hands(world))
    apply.make(PLAN, journal, hands(world))

    assert caught.value.exit_code == 75
    assert world.made == ["q", "j"]


def test_transient_errors_are_retried_after_growing_pauses(journal: Journal) -> None:
    world = World(*["throttled"] * 3)

    apply.make(PLAN, journal, hands(world))

    assert world.made == ["q", "j"]
    assert world.now == 0.5 + 1 + 2


def test_a_lasting_transient_error_is_raised_after_all_attempts(journal: Journal) -> None:
    world = World(*["throttled"] * 100)

    with pytest.raises(RemoteError, match="slow down"):
        apply.make(PLAN, journal, hands(world))

    assert len(world.calls) == apply.ATTEMPTS


def test_a_refusal_makes_nothing_and_is_not_looked_for(journal: Journal) -> None:
    world = World("refused")

    with pytest.raises(RemoteError, match="refused"):
        apply.make(PLAN, journal, hands(world))

    assert journal.memory.begun == set()


def test_a_cancel_that_was_wished_for_is_on_the_disk_before_it_is_asked_for(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    seen: list[str] = []

    def cancel(run: str) -> None:
        seen.append(journal.memory.want)
        world.states = [State.CANCELLED]

    monkeypatch.setattr(world, "cancel", cancel)

    apply.cancel(PLAN, journal, hands(world))

    assert seen == ["cancel"]


def test_cancel_waits_until_all_has_ended(journal: Journal) -> None:
    world = World()

    status = apply.cancel(PLAN, journal, hands(world))

    assert status.state is State.CANCELLED
    assert journal.memory.status is not None


def test_cancel_backs_off(journal: Journal) -> None:
    """Each look is half a dozen requests where a service is asked for a job, its tasks and its store."""
    world = World()
    world.states = [State.RUNNING]
    asked = list[float]()
    world.cancel = lambda run: asked.append(world.now)  # type: ignore[method-assign]
    journal.add("begun", step="job")

    with pytest.raises(UnknownOutcome):
        apply.cancel(PLAN, journal, hands(world))

    assert len([at for at in asked if at < 10]) <= 10
    assert len([at for at in asked if at >= 60]) <= (apply.CANCEL_S - 60) / 5 + 2


def test_destroy_takes_away_the_run_and_leaves_what_is_shared(journal: Journal) -> None:
    world = World()
    apply.make(PLAN, journal, hands(world))

    apply.destroy(PLAN, journal, hands(world))

    assert world.made == ["q"]
    assert journal.memory.deleted


def test_destroying_what_was_never_made_asks_for_nothing(journal: Journal) -> None:
    world = World()
    world.states = [State.GONE]

    apply.destroy(PLAN, journal, hands(world))

    assert world.calls == []
    assert journal.memory.deleted


def test_destroy_finds_what_was_begun_and_has_no_answer(journal: Journal) -> None:
    world = World("ok", "lost after")
    world.lag = 100
    with pytest.raises(UnknownOutcome):
        apply.make(PLAN, journal, hands(world))
    world.lag, world.states = 0, [State.GONE]

    apply.destroy(PLAN, journal, hands(world))

    assert world.made == ["q"]


def test_taking_away_is_tried_again_when_the_refusal_passes(journal: Journal) -> None:
    world = World("ok", "ok", "throttled", "throttled")
    apply.make(PLAN, journal, hands(world))
    world.states = [State.SUCCEEDED]

    apply.destroy(PLAN, journal, hands(world))

    assert world.made == ["q"]
    assert journal.memory.deleted


def test_secrets_are_put_in_at_the_last_moment_and_kept_nowhere(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "canary-123")
    world = World()
    step = Step("job", "job", Scope.RUN, request("make", {"$secret": "env:TOKEN"}), None)

    apply.make(Plan("fake", "job-abcdef", "", (step,)), journal, hands(world))

    assert world.made == ["canary-123"]
    assert "name" not in journal.path.read_text()
