"""Takes over runs that other machines started, from the store of their provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.api.lifecycle import Run
from runspec_jobs.api.listing import UNREADABLE, Summary
from runspec_jobs.api.profiles import load_configured
from runspec_jobs.engine import adopt as engine, apply, clients
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Conflict, Damaged, RunspecError, Unavailable, UsageError
from runspec_jobs.load import inputs, registry
from runspec_jobs.load.inputs import ProfileInUse
from runspec_jobs.load.source import InvalidSpec
from runspec_jobs.provider import (
    Client,
    Facts,
    Provider,
    State,
    Status,
    SupportsAdoption,
    SupportsPlaces,
)
from runspec_jobs.state import run_record
from runspec_jobs.state.run_record import Record


class OfAnother(UsageError):
    """A run in the store belongs to another provider."""


class Store(NamedTuple):
    """The store of one provider, in the account of this machine's profile, from which runs can be adopted."""

    provider: Provider
    client: Client
    adopts: SupportsAdoption
    own: ProfileInUse


class Adopted(NamedTuple):
    """The runs that were adopted, and the errors of those that could not be."""

    runs: list[Run]
    failures: list[RunspecError]


def adopt(provider: str, run: str, *, on_event: OnEvent | None = None) -> Run:
    """Copy the record of *run* from the store of *provider*, and return the run.

    Raises Unavailable if other machines cannot read the store, UsageError if there is no such run or it is on record
    here, and Conflict or Damaged if its state in the store is missing or cannot be read.
    """
    return Run(_adopt(run, _open_store(provider), Events(on_event)))


def adopt_all(provider: str, *, on_event: OnEvent | None = None) -> Adopted:
    """Adopt all runs of the store that have no record here; one that cannot be adopted does not stop the others."""
    store = _open_store(provider)
    adopted = Adopted([], [])
    for name in _list_missing(store):
        try:
            adopted.runs.append(Run(_adopt(name, store, Events(on_event))))
        except OfAnother:
            continue
        except (Conflict, Damaged, UsageError) as exc:
            adopted.failures.append(exc)
    return adopted


def list_remote() -> tuple[list[Summary], Mapping[str, RunspecError]]:
    """Return the runs in the stores of the profile that have no record here, and the errors of stores by provider."""
    rows: list[Summary] = []
    failures: dict[str, RunspecError] = {}
    for name in inputs.read_profile_in_use(Path.cwd()).profile.providers:
        try:
            with registry.translate_import_errors():
                store = _store(name)
                rows += _summarize_missing(store) if store is not None else []
        except InvalidSpec:
            raise  # the profile is wrong, or not trusted: that stands in the way of all of them
        except RunspecError as exc:
            failures[name] = exc
    return rows, failures


def _open_store(name: str) -> Store:
    """Return the store of the provider *name*. Raises Unavailable if other machines cannot read it."""
    store = _store(name)
    if store is None:
        message = f"runs on '{name}' cannot be adopted: other machines cannot read its store"
        raise Unavailable(message, "use the machine that started the run")
    return store


def _store(name: str) -> Store | None:
    provider, options = load_configured(name)
    # Without the facts of a spec, which no request for the store needs.
    client = provider.connect(Facts(options))
    if not isinstance(client, SupportsAdoption):
        return None
    return Store(provider, client, client, inputs.read_profile_in_use(Path.cwd()))


def _list_missing(store: Store) -> list[str]:
    """Return the runs of the store that have no record here; names that are no run ids are left out."""
    here = {record.run for record in run_record.list_all()}
    return sorted(
        run for run in store.adopts.kept_runs() if run_record.RUN.fullmatch(run) and run not in here
    )


def _adopt(run: str, store: Store, reporter: Reporter) -> Record:
    if not run_record.RUN.fullmatch(run):
        message = f"'{run}' is not the full name of a run, such as mnist-7k2m9p"
        raise UsageError(message, "runspec list --remote shows the runs that can be adopted")
    with run_record.lock_name(run[:-7], reporter.wait):
        record = run_record.Record(run_record.find_runs_folder() / run)
        if record.folder.exists():
            # The record of a run that was adopted during its apply is not complete, and may be continued.
            memory = record.read_memory()
            if memory.deleted or apply.is_made(record.plan, memory):
                deleted = ", which was destroyed" if memory.deleted else ""
                raise UsageError(
                    f"this machine has a record of {record.run}{deleted}", "see runspec list --all"
                )
        else:
            with run_record.lock_site(reporter.wait, shared=True):
                record = _put_on_record(run, store)
    # Only now the service is asked what exists: a record that says "begun" is safe at any moment.
    with record.open_journal(reporter.wait) as journal:
        engine.look(record.plan, journal, clients.connect(record)[1])
    return record


def _put_on_record(run: str, store: Store) -> Record:
    name = store.provider.name
    content = store.adopts.kept_state(run)
    if content is None:
        # A run without a state, or no run at all.
        if run not in store.adopts.kept_runs():
            message = f"there is no run '{run}' in the store of {name}"
            raise UsageError(message, "runspec list --remote shows the runs that can be adopted")
        message = (
            f"{run} has no state in the store of {name}: an earlier version of runspec started it"
        )
        hint = f"use the machine that started it, or end it with runspec gc {name} --yes --alive"
        raise Conflict(message, hint)
    kept = engine.read(content, run)
    if kept.provider != name:
        message = f"{run} runs on '{kept.provider}'"
        raise OfAnother(message, f"runspec adopt {kept.provider} {run}")
    adopted = engine.convert_state(kept, store.provider, store.own.profile)
    client = store.provider.connect(adopted.facts)
    engine.demand_submitted(adopted, client)
    places = client.places(run)._asdict() if isinstance(client, SupportsPlaces) else None
    path, prices = store.own.path, store.own.profile.prices
    machines = clients.record_rates(store.provider, adopted.spec, adopted.facts, prices)
    return engine.put_on_record(adopted, Path.cwd(), path and path.absolute(), machines, places)


def _summarize_missing(store: Store) -> list[Summary]:
    rows = (_summarize_run(run, store) for run in _list_missing(store))
    return [row for row in rows if row is not None]


def _summarize_run(run: str, store: Store) -> Summary | None:
    """Return a run in short, or None if it belongs to another provider.

    That of a run that cannot be adopted has the reason.
    """
    began = None
    try:
        content = store.adopts.kept_state(run)
        if content is None:
            raise Damaged(
                "an earlier version of runspec started the run, and put no state in the store"
            )
        kept = engine.read(content, run)
        if kept.provider != store.provider.name:
            return None
        began = kept.born
        status = _read_status(run, store)
        state, reason = str(status.state), status.reason
    except Damaged as exc:
        state, reason = UNREADABLE, exc.message
    return Summary(run, run[:-7], store.provider.name, state, reason, began)


def _read_status(run: str, store: Store) -> Status:
    try:
        return store.client.state(run)
    except RunspecError as exc:
        return Status(State.WAITING, f"its state is not known now: {exc.message}")
