"""Makes what a setup plans in an account, and undoes it; `engine.apply` carries out the steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.accounts import setup_record
from runspec_jobs.accounts.setup_record import SetupRecord
from runspec_jobs.engine import apply as engine
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Conflict
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Client,
    Request,
    Response,
    Setup,
    SetupClient,
    State,
    Status,
    SupportsSetup,
)


class NamedProvider(SupportsSetup):
    """A provider that supports setups, as the engine uses it."""

    name: str


class Planned(NamedTuple):
    """A setup that can be carried out: its plan, what it continues, and the client.

    *exists* says for each step whether its resource is there. *record* is None if it is not on record yet.
    """

    plan: model.Plan
    setup: Setup
    about: Mapping[str, Any]
    client: SetupClient
    exists: Sequence[bool]
    record: SetupRecord | None


def make_plan(
    provider: NamedProvider, options: Any, survey: Mapping[str, Any], token: str
) -> tuple[model.Plan, Setup]:
    """Return the plan of a setup with *token* in its name; its digest does not depend on the token."""
    name, preview = f"{provider.name}-{token}", f"{provider.name}-{model.PREVIEW}"
    setup = provider.plan_setup(options, survey, name)
    neutral = provider.plan_setup(options, survey, preview)
    plan = model.Plan(provider.name, name, model.digest(neutral.steps), setup.steps)
    return plan, setup


def prepare(
    provider: NamedProvider, options: Any, survey: Mapping[str, Any], token: str
) -> Planned:
    """Return the setup to carry out: the newest one of this place if its plan is the same, or else a new one.

    Services are only read. Raises Conflict with everything that somebody else's resources stand in the way of.
    """
    plan, setup = make_plan(provider, options, survey, token)
    record = _find_same(plan, setup)
    if record is not None:
        plan, setup = make_plan(provider, options, survey, record.name[-len(token) :])
    client = provider.connect_setup(options, survey, plan.run)
    exists = find_existing(plan, client)
    if record is not None and engine.is_made(record.plan, record.read_memory()):
        if all(exists):
            return Planned(plan, setup, record.about, client, exists, record)
        # Something was deleted since: a new setup makes it again, and the older one keeps what it made.
        plan, setup = make_plan(provider, options, survey, token)
        client, record = provider.connect_setup(options, survey, plan.run), None
    about = {
        "place": setup.place,
        "options": options.model_dump(mode="json", exclude_unset=True),
        "survey": survey,
        "settings": setup.settings,
        "data": {step: request._asdict() for step, request in setup.data.items()},
    }
    return Planned(plan, setup, about, client, exists, record)


def _find_same(plan: model.Plan, setup: Setup) -> SetupRecord | None:
    kept = setup_record.list_kept(plan.provider)
    of_place = [record for record in kept if record.about["place"] == setup.place]
    newest = of_place[-1] if of_place else None
    if newest is None or newest.plan.digest != plan.digest or newest.read_memory().want != "run":
        return None
    return newest


def find_existing(plan: model.Plan, client: SetupClient) -> list[bool]:
    """Return for each step whether its resource is there. Raises Conflict with everything that is somebody else's."""
    exists, conflicts = [], []
    for step in plan.steps:
        try:
            exists.append(client.find(step) is not None)
        except Conflict as exc:
            conflicts.append(exc)
    refuse(conflicts)
    return exists


def make(planned: Planned, reporter: Reporter) -> tuple[SetupRecord, Mapping[str, Response]]:
    """Carry out the steps of a setup, and return its record and the answers. The caller holds the lock of setups."""
    record = planned.record or setup_record.create(planned.plan, planned.about)
    with record.open_journal() as journal:
        hands = engine.ApplyContext(as_client(planned.client), reporter)
        engine.make(record.plan, journal, hands)
        if journal.memory.status is None:
            engine.note_end(journal, Status(State.SUCCEEDED))
        return record, dict(journal.memory.answers)


def list_made(record: SetupRecord) -> list[str]:
    """Return the titles of what a setup has made and not deleted; what it has found and adopted is not among them."""
    memory = record.read_memory()
    return [
        step.title
        for step in record.plan.steps
        if step.undo and step.id in memory.begun_at and step.id not in memory.undone
    ]


def check_undo(
    record: SetupRecord, client: SetupClient, together: Collection[str], *, with_data: bool
) -> Sequence[Conflict]:
    """Return why a setup cannot be undone as a whole, *together* with others. Services are only read."""
    memory = record.read_memory()
    answers = dict(memory.answers)
    requests = []
    for step in record.plan.steps:
        if step.undo is None or step.id not in memory.begun_at or step.id in memory.undone:
            continue
        if not _knows(step.undo, answers) and (answer := client.find(step)) is not None:
            answers[step.id] = answer
        if _knows(step.undo, answers):  # otherwise, it was never made
            requests.append(setup_record.fill_request(step.undo, answers))
    return client.check_undo(requests, together, with_data=with_data)


def _knows(request: Request, answers: Mapping[str, Response]) -> bool:
    return all(
        mark.partition(".")[0] in answers for mark in model.find_marked(request.params, model.REF)
    )


def refuse(conflicts: Sequence[Conflict]) -> None:
    """Raise one Conflict that says all of *conflicts*, if there are any."""
    if conflicts:
        messages = dict.fromkeys(exc.message for exc in conflicts)
        hints = dict.fromkeys(exc.hint for exc in conflicts if exc.hint)
        raise Conflict("; ".join(messages), "; ".join(hints))


def undo(
    record: SetupRecord, client: SetupClient, reporter: Reporter, *, with_data: bool
) -> list[Conflict]:
    """Delete what a setup has made, the last first, and return why things were kept.

    What holds the data of users stays, unless *with_data* says to delete that, too. The caller holds the lock of
    setups, and calls `note_deleted` when everything of it is gone. Calling it again is safe.
    """
    kept: list[Conflict] = []
    data = record.data if with_data else {}
    with record.open_journal() as journal:
        if journal.memory.want != "destroy":
            journal.add("want", want="destroy")
        hands = engine.ApplyContext(as_client(client), reporter)
        for step in reversed(record.plan.steps):
            # Without `begun`, the step found what was there before.
            if step.undo is None or step.id not in journal.memory.begun_at:
                continue
            try:
                if step.id in data and step.id not in journal.memory.undone:
                    client.call(data[step.id])
                engine.undo([step], journal, hands)
            except Conflict as exc:
                kept.append(exc)
    return kept


def note_deleted(record: SetupRecord) -> None:
    """Note that nothing of a setup is left: no later command looks at it. The caller holds the lock of setups."""
    with record.open_journal() as journal:
        journal.add("deleted")


def as_client(client: SetupClient) -> Client:
    """Return *client* for `engine.make` and `engine.undo`, which call nothing that only a run has."""
    return cast(Client, client)
