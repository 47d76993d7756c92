"""Carries out plans, and undoes them, so that a crash and a missing answer are handled in the same way.

The journal notes that a step begins before its request is sent, and that it is done afterwards. For a
step that has begun and is not done, the service is first asked whether the resource exists.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.engine import clients, secrets
from runspec_jobs.errors import AlreadyExists, Damaged, NoAnswer, RemoteError, UnknownOutcome
from runspec_jobs.logs.outage import make_pauses
from runspec_jobs.plan.model import (
    ANSWER,
    FILE,
    REF,
    SECRET,
    Plan,
    fill,
    find_marked,
    resolve_answers,
)
from runspec_jobs.provider import (
    Bundle,
    Client,
    Progress,
    Request,
    Response,
    Scope,
    State,
    Status,
    Step,
    SupportsAdoption,
    SupportsUpload,
)
from runspec_jobs.state import attempt_history, parent_answers
from runspec_jobs.state.journal import Journal, RunState

Done = TypeVar("Done")

ATTEMPTS = 6  # to send a request that is refused with a transient error
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0  # the longest time that a service may ask to wait before an attempt
LOOK_S = 0.2  # between two queries for a resource that may have been made
LONGEST_LOOK_S = 5.0  # between two queries for something that takes minutes
LONGEST_SETTLE_S = 2.0  # between two queries for something that the next step needs
SETTLED_S = 900.0  # the longest time until a new resource can be used
CANCEL_S = 300.0  # the longest time that cancel waits for the end of the run


class ProgressReporter(Protocol):
    """Receives the progress of a plan that is carried out."""

    def step(self, title: str) -> None:
        """Note that a step begins."""

    def progress(self, title: str) -> Progress:
        """Return the function to call with the number of bytes that a step has transferred."""


class ApplyContext(NamedTuple):
    """What carrying out a plan needs: the client, the mounted folders, and a reporter of progress.

    *state* is written to the store, so that another machine can adopt the run.
    """

    client: Client
    tell: ProgressReporter
    bundles: Mapping[str, Bundle] = {}
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    state: bytes | None = None


def demand_secrets(steps: Iterable[Step]) -> None:
    """Raise CredentialsError if a secret that *steps* send cannot be read, before anything is made."""
    for name in {name for step in steps for name in find_marked(step.do.params, SECRET)}:
        secrets.read_secret(name)


def make(plan: Plan, journal: Journal, hands: ApplyContext) -> None:
    """Carry out the steps of *plan* that are not done yet.

    Raises UnknownOutcome if a request may or may not have been carried out; calling again is safe. Raises RemoteError
    if a service refuses a request, and CredentialsError, before any request, if a secret cannot be read.
    """
    steps = [step for step in plan.steps if step.id not in journal.memory.answers]
    demand_secrets(steps)
    # The state goes to the store before the first step that leaves something behind: from then on, another
    # machine can adopt and delete the run.
    keeps = next((s for s in plan.steps if s.scope is Scope.RUN and s.undo is not None), None)
    has_found = False
    for step in steps:
        was_there = _make(step, journal, hands, plan.run if step is keeps else None)
        has_found = has_found or (was_there and is_submitting(step, plan))
    if has_found:  # there may be a second job
        _reconcile_found(plan.run, hands)


def _make(step: Step, journal: Journal, hands: ApplyContext, kept: str | None) -> bool:
    """Carry out *step*, and return whether its resource was found instead of made with an answer.

    If *kept* names a run, its state is written to the store before the request.
    """
    hands.tell.step(step.title)
    answer = _find_existing(step, journal, hands)
    has_found = answer is not None
    if answer is None:
        request = fill_request(step.do, journal.memory.answers)
        # Only now: if a secret cannot be read above, the step has not begun, and nothing has to be looked for.
        journal.add("begun", step=step.id)
        answer, has_found = _call(step, lambda: _send(step, request, hands, kept), journal, hands)
    _settle(step, hands)
    journal.add("done", step=step.id, answer=dict(answer))
    return has_found


def is_submitting(step: Step, plan: Plan) -> bool:
    """Return whether *step* submits jobs: the last step does, and those before it with the same operation."""
    last = plan.steps[-1]
    return (step.scope, step.do.operation) == (last.scope, last.do.operation)


def _reconcile_found(run: str, hands: ApplyContext) -> None:
    for line in clients.make_reconciler(hands.client, run)():
        hands.tell.step(line)


def _find_existing(step: Step, journal: Journal, hands: ApplyContext) -> Response | None:
    """Return the answer of *step* if its resource exists; ask once if it is shared, longer if the step had begun."""
    if step.id in journal.memory.begun:
        return _look(step, hands)
    # The run id is new, so a step of the run that was never begun cannot have a resource yet.
    return hands.client.find(step) if step.scope is Scope.SITE else None


def _look(step: Step, hands: ApplyContext) -> Response | None:
    """Ask for the resource of *step* until it is found, or until the service would certainly show it."""
    end = hands.clock() + step.settle_s
    while True:
        answer = hands.client.find(step)
        left = end - hands.clock()
        if answer is not None or left <= 0:
            return answer
        hands.sleep(min(LOOK_S, left))


def _call(
    step: Step, send: Callable[[], Response], journal: Journal, hands: ApplyContext
) -> tuple[Response, bool]:
    """Return the answer of *step*, and whether its resource was found instead of made with an answer."""
    try:
        return retry(send, hands), False
    except NoAnswer as exc:
        answer = _look(step, hands)
        if answer is not None:
            return answer, True
        raise UnknownOutcome(
            f"{step.title}: no answer, and the resource was not found: {exc.message}",
            "run the same command again: it checks what exists, and makes nothing twice",
        ) from exc
    except RemoteError as exc:
        try:
            return _find_made_elsewhere(step, send, exc, hands), True
        except RemoteError as last:
            journal.add("refused", step=step.id, why=last.message)
            raise


def _find_made_elsewhere(
    step: Step, send: Callable[[], Response], refusal: RemoteError, hands: ApplyContext
) -> Response:
    """Return the answer of a *step* that was refused because another machine made the resource meanwhile.

    If two machines start at once, neither finds the resource, and the slower one is refused. If the name is taken but
    the resource is not found, it is being made or deleted: then both requests are repeated until one of them succeeds.
    Raises the last refusal if no other machine made the resource.
    """
    if step.scope is not Scope.SITE and not isinstance(refusal, AlreadyExists):
        raise refusal
    end, looks = hands.clock() + SETTLED_S, make_pauses(LOOK_S, LONGEST_LOOK_S)
    has_told = False
    while (answer := hands.client.find(step)) is None:
        if not isinstance(refusal, AlreadyExists) or hands.clock() > end:
            raise refusal
        if not has_told:
            hands.tell.step(f"{step.title}: another machine is making or deleting it; waiting")
        has_told = True
        hands.sleep(next(looks))
        try:
            return retry(send, hands)
        except AlreadyExists as exc:
            refusal = exc
    return answer


def retry(send: Callable[[], Done], hands: ApplyContext) -> Done:
    """Return the result of *send*, which is called again, up to a limit, after transient errors."""
    pause_s = FIRST_PAUSE_S
    for _ in range(ATTEMPTS - 1):
        try:
            return send()
        except (RemoteError, NoAnswer) as exc:
            if not exc.transient:
                raise
            # A service may ask for hours; the user would rather see the error.
            asked_s = min(exc.retry_after_s or 0, LONGEST_PAUSE_S)
        hands.sleep(max(pause_s, asked_s))
        # Doubled, because a service that is overloaded needs longer than the first pause.
        pause_s *= 2
    return send()


def _send(step: Step, request: Request, hands: ApplyContext, kept: str | None) -> Response:
    if kept is not None and hands.state is not None and isinstance(hands.client, SupportsAdoption):
        hands.client.keep_state(kept, hands.state)
    files = list(find_marked(request.params, FILE))
    if not files:
        return hands.client.call(request)
    assert isinstance(hands.client, SupportsUpload), (
        f"BUG: {step.id} has a file, but its client cannot upload"
    )
    bundle = hands.bundles[files[0]]
    return hands.client.stage(request, bundle, hands.tell.progress(step.title))


def fill_request(request: Request, answers: Mapping[str, Response]) -> Request:
    """Return *request* with the values that were unknown while planning, secrets too: never store the result.

    Raises CredentialsError if a secret cannot be read.
    """
    params = parent_answers.without_ended(request.params)
    known = {
        REF: resolve_answers(request, answers),
        SECRET: {name: secrets.read_secret(name) for name in find_marked(params, SECRET)},
        ANSWER: {mark: parent_answers.answer(mark) for mark in find_marked(params, ANSWER)},
    }
    return Request(request.service, request.operation, fill(params, known))


def _settle(step: Step, hands: ApplyContext) -> None:
    end, looks = hands.clock() + SETTLED_S, make_pauses(LOOK_S, LONGEST_SETTLE_S)
    while not hands.client.settled(step):
        if hands.clock() > end:
            message = f"{step.title}: the resource cannot be used after {SETTLED_S:.0f} s"
            raise UnknownOutcome(message, "run the same command again")
        hands.sleep(next(looks))


def cancel(plan: Plan, journal: Journal, hands: ApplyContext) -> Status:
    """Cancel every job of *plan*'s run and wait until all have ended; the journal notes the request first.

    A run that has ended is cancelled as well, because some of its jobs may be left. Raises UnknownOutcome if the jobs
    do not end in time; calling again is safe.
    """
    if journal.memory.want == "run" and journal.memory.status is None:
        journal.add("want", want="cancel")
    status = journal.memory.status or hands.client.state(plan.run)
    if journal.memory.attempted:
        retry(partial(hands.client.cancel, plan.run), hands)
    end, looks = hands.clock() + CANCEL_S, make_pauses(LOOK_S, LONGEST_LOOK_S)
    while not status.state.terminal:
        if hands.clock() > end:
            raise UnknownOutcome(f"{plan.run} has not ended yet", "run the same command again")
        hands.sleep(next(looks))
        status = hands.client.state(plan.run)
        if not status.state.terminal:
            retry(partial(hands.client.cancel, plan.run), hands)
    if journal.memory.attempted and journal.memory.status is None:
        _reconcile_found(plan.run, hands)
    # GONE is ambiguous: the service has forgotten the job, or never got it. The journal knows which.
    if status.state is State.GONE and not is_made(plan, journal.memory):
        status = Status(State.CANCELLED, "it had not started")
    note_end(journal, status)
    return status


def abandon(journal: Journal, want: str) -> Status:
    """Cancel or destroy, as *want* says, a run of which no step has begun.

    No service knows of it, so no client is needed.
    """
    memory = journal.memory
    assert not memory.attempted, "BUG: resources of the run may exist"
    if memory.want not in ("destroy", want):
        journal.add("want", want=want)
    status = memory.status or Status(State.CANCELLED, "it had not started")
    note_end(journal, status)
    if want == "destroy" and not memory.deleted:
        journal.add("deleted")
    return status


def forget(plan: Plan, journal: Journal) -> list[str]:
    """Record *plan*'s run as destroyed, and return the titles of its steps that are not undone. Nothing is asked."""
    memory = journal.memory
    left = memory.attempted - memory.undone
    titles = [s.title for s in plan.steps if s.scope is Scope.RUN and s.undo and s.id in left]
    if not memory.deleted:
        if memory.want != "destroy":
            journal.add("want", want="destroy")
        journal.add("deleted")
    return titles


def is_made(plan: Plan, memory: RunState) -> bool:
    """Return whether every step of *plan* has been carried out."""
    return all(step.id in memory.answers for step in plan.steps)


def is_submitted(plan: Plan, memory: RunState) -> bool:
    """Return whether jobs of *plan* were submitted: all, or some of them by an apply that was interrupted."""
    return any(step.id in memory.answers for step in plan.steps if is_submitting(step, plan))


def note_end(journal: Journal, status: Status) -> None:
    """Write the last status of a run, with its attempts, to its record, because services forget it."""
    # GONE says nothing about how the run ended, so it is never recorded as its end.
    if status.state.terminal and status.state is not State.GONE and journal.memory.status is None:
        with contextlib.suppress(
            Damaged
        ):  # attempts that cannot be read do not keep a run from its end
            attempt_history.keep(journal, status, time.time())
        journal.add("ended", state=status.state, reason=status.reason, exit_code=status.exit_code)


def destroy(plan: Plan, journal: Journal, hands: ApplyContext) -> None:
    """Cancel *plan*'s run and undo all steps that were made for it alone, the last one first."""
    if journal.memory.deleted:
        return
    if journal.memory.want != "destroy":
        journal.add("want", want="destroy")
    # A job that still runs would write to what is deleted below.
    cancel(plan, journal, hands)
    undo([s for s in plan.steps if s.scope is Scope.RUN], journal, hands)
    journal.add("deleted")


def undo(steps: Sequence[Step], journal: Journal, hands: ApplyContext) -> None:
    """Undo *steps*, the last one first.

    For steps that have begun and are not done, or were refused, the service is asked what they made.
    """
    # Later steps may use the resources of earlier ones.
    for step in reversed(steps):
        if step.undo is None or step.id in journal.memory.undone:
            continue
        if step.id in journal.memory.attempted:
            # The undo of a step may refer to its own answer, which a lost reply never brought.
            answers = dict(journal.memory.answers)
            if step.id not in answers:
                answers |= _find_answers(step, journal, hands)
            _undo(step.undo, answers, step.title, hands)
        journal.add("undone", step=step.id)


def _find_answers(step: Step, journal: Journal, hands: ApplyContext) -> dict[str, Response]:
    may_come = step.id in journal.memory.begun
    answer = _look(step, hands) if may_come else hands.client.find(step)
    return {} if answer is None else {step.id: answer}


def _undo(
    request: Request, answers: Mapping[str, Response], title: str, hands: ApplyContext
) -> None:
    hands.tell.step(f"undo: {title}")
    if any(ref.split(".")[0] not in answers for ref in find_marked(request.params, REF)):
        return  # the step was never made: a resource that its undo refers to does not exist
    try:
        retry(lambda: hands.client.call(fill_request(request, answers)), hands)
    except NoAnswer as exc:
        message = f"undo of '{title}': no answer: {exc.message}"
        raise UnknownOutcome(message, "run the same command again") from exc
