"""Carrying a plan out, and taking it back: one path for "we died" and "they did not answer".

Every step is begun in the journal, called, and done in the journal. A step that is begun and
not done is looked for before it is called again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from runspec_jobs.engine import secrets
from runspec_jobs.errors import AlreadyExists, NoAnswer, RemoteError, UnknownOutcome
from runspec_jobs.logs.outage import pauses
from runspec_jobs.plan.model import FILE, REF, SECRET, Plan, answers_known, fill, marked
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
from runspec_jobs.state.journal import Journal, RunState

TRIES = 6  # of a call that was definitely refused for a reason that passes
FIRST_PAUSE_S = 0.5
LOOK_S = 0.2  # between two looks for what may have been made
LONGEST_LOOK_S = 5.0  # at what takes minutes
LONGEST_SETTLE_S = 2.0  # at what the next step waits for
SETTLED_S = 900.0  # the longest that something new may take until it can be used
CANCEL_S = 300.0  # the longest that cancel waits for the end


class ProgressReporter(Protocol):
    """Who is told how it goes."""

    def step(self, title: str) -> None:
        """Called when a step begins."""

    def progress(self, title: str) -> Progress:
        """Called when a step moves bytes; gives what to call as they move."""


@dataclass(frozen=True)
class ApplyContext:
    """What carrying out a plan needs: the client, this machine's folders, and somebody to tell.

    *state* is what the store keeps of the run, so that another machine can adopt it.
    """

    client: Client
    tell: ProgressReporter
    bundles: Mapping[str, Callable[[], Bundle]] = field(default_factory=dict)
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    state: bytes | None = None


def make(plan: Plan, journal: Journal, hands: ApplyContext) -> None:
    """Carry out what is left of *plan*.

    Raises UnknownOutcome when a call may or may not have been carried out; calling again is
    safe. Raises RemoteError when a service refuses, and CredentialsError, before
    anything else, when a secret cannot be read.
    """
    left = [step for step in plan.steps if step.id not in journal.memory.answers]
    for name in {name for step in left for name in marked(step.do.params, SECRET)}:
        secrets.value(name)  # all can be read, before anything is made
    keeps = next((s for s in plan.steps if s.scope is Scope.RUN and s.undo is not None), None)
    for step in left:
        _make(step, journal, hands, plan.run if step is keeps else None)


def _make(step: Step, journal: Journal, hands: ApplyContext, kept: str | None) -> None:
    """Carry out *step*, and have the store keep the state of the run *kept* before its call."""
    hands.tell.step(step.title)
    answer = _already(step, journal, hands)
    if answer is None:
        request = ready(step.do, journal.memory.answers)
        journal.add("begun", step=step.id)
        answer = _call(step, lambda: _send(step, request, hands, kept), journal, hands)
    _settle(step, hands)
    journal.add("done", step=step.id, answer=dict(answer))


def _already(step: Step, journal: Journal, hands: ApplyContext) -> Response | None:
    """Look for what *step* makes: once if it is shared, and long enough if it may have been made."""
    if step.id in journal.memory.begun:
        return _look(step, hands)
    return hands.client.find(step) if step.scope is Scope.SITE else None


def _look(step: Step, hands: ApplyContext) -> Response | None:
    """Ask for *step* until it is found or the service's lists must show it."""
    end = hands.clock() + step.settle_s
    while True:
        found = hands.client.find(step)
        left = end - hands.clock()
        if found is not None or left <= 0:
            return found
        hands.sleep(min(LOOK_S, left))


def _call(
    step: Step, send: Callable[[], Response], journal: Journal, hands: ApplyContext
) -> Response:
    try:
        return _patiently(send, hands)
    except NoAnswer as exc:
        found = _look(step, hands)
        if found is not None:
            return found
        raise UnknownOutcome(
            f"{step.title}: no answer, and nothing to be seen of it: {exc.message}",
            "run the same command again: it looks first and makes nothing twice",
        ) from exc
    except RemoteError as exc:
        try:
            return _made_elsewhere(step, send, exc, hands)
        except RemoteError as last:
            journal.add("refused", step=step.id, why=last.message)
            raise


def _made_elsewhere(
    step: Step, send: Callable[[], Response], refusal: RemoteError, hands: ApplyContext
) -> Response:
    """Give what another machine has made of a *step* that was refused here. Raises the last refusal where nobody has.

    Two machines that begin at once both find nothing, and the slower one is refused. What has the name and is not
    found has just been made, or is being taken away: then both are tried until one of them goes through.
    """
    if step.scope is not Scope.SITE and not isinstance(refusal, AlreadyExists):
        raise refusal
    end, looks = hands.clock() + SETTLED_S, pauses(LOOK_S, LONGEST_LOOK_S)
    told = False
    while (found := hands.client.find(step)) is None:
        if not isinstance(refusal, AlreadyExists) or hands.clock() > end:
            raise refusal
        if not told:
            hands.tell.step(f"{step.title}: another machine is making it or taking it away; wait")
        told = True
        hands.sleep(next(looks))
        try:
            return _patiently(send, hands)
        except AlreadyExists as exc:
            refusal = exc
    return found


def _patiently(send: Callable[[], Response], hands: ApplyContext) -> Response:
    """Give what *send* gives, tried again while it is definitely refused for a reason that passes."""
    pause_s = FIRST_PAUSE_S
    for _ in range(TRIES - 1):
        try:
            return send()
        except RemoteError as exc:
            if not exc.transient:
                raise
        hands.sleep(pause_s)
        pause_s *= 2
    return send()


def _send(step: Step, request: Request, hands: ApplyContext, kept: str | None) -> Response:
    if kept is not None and hands.state is not None and isinstance(hands.client, SupportsAdoption):
        hands.client.keep_state(kept, hands.state)
    files = list(marked(request.params, FILE))
    if not files:
        return hands.client.call(request)
    assert isinstance(hands.client, SupportsUpload), (
        f"BUG: {step.id} has a file, its client cannot stage"
    )
    bundle = hands.bundles[files[0]]()
    return hands.client.stage(request, bundle, hands.tell.progress(step.title))


def ready(request: Request, answers: Mapping[str, Response]) -> Request:
    """Give *request* with all that was not known while planning; not to be kept anywhere.

    Raises CredentialsError when a secret cannot be read.
    """
    known = {
        REF: answers_known(request, answers),
        SECRET: {name: secrets.value(name) for name in marked(request.params, SECRET)},
    }
    return Request(request.service, request.operation, fill(request.params, known))


def _settle(step: Step, hands: ApplyContext) -> None:
    end, looks = hands.clock() + SETTLED_S, pauses(LOOK_S, LONGEST_SETTLE_S)
    while not hands.client.settled(step):
        if hands.clock() > end:
            what = f"{step.title}: it cannot be used after {SETTLED_S:.0f} s"
            raise UnknownOutcome(what, "run the same command again")
        hands.sleep(next(looks))


def cancel(plan: Plan, journal: Journal, hands: ApplyContext) -> Status:
    """End every job of *plan*'s run and wait until all have; the wish is on the disk first.

    A run that has ended is asked to end as well: something of it may be left. Raises UnknownOutcome when its jobs do
    not end in time; calling again is safe.
    """
    if journal.memory.want == "run" and journal.memory.status is None:
        journal.add("want", want="cancel")
    status = journal.memory.status or hands.client.state(plan.run)
    if journal.memory.attempted:
        hands.client.cancel(plan.run)
    end, looks = hands.clock() + CANCEL_S, pauses(LOOK_S, LONGEST_LOOK_S)
    while not status.state.terminal:
        if hands.clock() > end:
            raise UnknownOutcome(f"{plan.run} has not ended yet", "run the same command again")
        hands.sleep(next(looks))
        status = hands.client.state(plan.run)
        if not status.state.terminal:
            hands.client.cancel(plan.run)
    if status.state is State.GONE and not is_made(plan, journal.memory):
        status = Status(State.CANCELLED, "it had not started")
    note_end(journal, status)
    return status


def abandon(journal: Journal, want: str) -> Status:
    """End a run that began no step, *want* being "cancel" or "destroy": no service has heard of it.

    So nobody has to be asked, and no client is needed.
    """
    memory = journal.memory
    assert not memory.attempted, "BUG: something of the run may be there"
    if memory.want not in ("destroy", want):
        journal.add("want", want=want)
    status = memory.status or Status(State.CANCELLED, "it had not started")
    note_end(journal, status)
    if want == "destroy" and not memory.deleted:
        journal.add("deleted")
    return status


def is_made(plan: Plan, memory: RunState) -> bool:
    """Say whether every step of *plan* has been carried out."""
    return all(step.id in memory.answers for step in plan.steps)


def note_end(journal: Journal, status: Status) -> None:
    """Keep how the run ended: services forget."""
    if status.state.terminal and status.state is not State.GONE and journal.memory.status is None:
        journal.add("ended", state=status.state, reason=status.reason, exit_code=status.exit_code)


def destroy(plan: Plan, journal: Journal, hands: ApplyContext) -> None:
    """End *plan*'s run and take away all that it made for itself, the last thing first."""
    if journal.memory.deleted:
        return
    if journal.memory.want != "destroy":
        journal.add("want", want="destroy")
    cancel(plan, journal, hands)
    undo([s for s in plan.steps if s.scope is Scope.RUN], journal, hands)
    journal.add("deleted")


def undo(steps: Sequence[Step], journal: Journal, hands: ApplyContext) -> None:
    """Take back *steps*, the last first. What was begun and not done is looked for as well.

    So is what was refused: a part of it may be there.
    """
    for step in reversed(steps):
        if step.undo is None or step.id in journal.memory.undone:
            continue
        if step.id in journal.memory.attempted:
            answers = dict(journal.memory.answers)
            if step.id not in answers:
                answers |= _found(step, journal, hands)
            _undo(step.undo, answers, step.title, hands)
        journal.add("undone", step=step.id)


def _found(step: Step, journal: Journal, hands: ApplyContext) -> dict[str, Response]:
    may_come = step.id in journal.memory.begun
    found = _look(step, hands) if may_come else hands.client.find(step)
    return {} if found is None else {step.id: found}


def _undo(
    request: Request, answers: Mapping[str, Response], title: str, hands: ApplyContext
) -> None:
    hands.tell.step(f"undo: {title}")
    if any(ref.split(".")[0] not in answers for ref in marked(request.params, REF)):
        return  # it was never made: what its undo would name does not exist
    try:
        _patiently(lambda: hands.client.call(ready(request, answers)), hands)
    except NoAnswer as exc:
        what = f"undo of '{title}': no answer: {exc.message}"
        raise UnknownOutcome(what, "run the same command again") from exc
