"""`runspec adopt`, and `runspec list --remote`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from runspec_jobs.cli import cleanup, output
from runspec_jobs.engine import adopt as engine, apply, clients
from runspec_jobs.engine.wait import ways
from runspec_jobs.errors import OK, Conflict, Damaged, RunspecError, Unavailable, UsageError
from runspec_jobs.load import inputs, registry
from runspec_jobs.load.inputs import ProfileInUse
from runspec_jobs.load.source import InvalidSpec
from runspec_jobs.provider import Client, Facts, Provider, State, Status, SupportsAdoption
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


def adopt(provider: str, run: str | None, *, as_json: bool) -> int:
    """Copy records of runs from a store; of several runs, one that cannot be adopted does not stop the others."""
    store = _opened(provider)
    if run is not None:
        _say([_adopt(run, store)], provider, as_json=as_json)
        return OK
    adopted: list[Record] = []
    code = OK
    for name in _not_here(store):
        try:
            adopted.append(_adopt(name, store))
        except OfAnother:
            continue
        except (Conflict, Damaged, UsageError) as exc:
            output.tell(exc.message)
            code = code or exc.exit_code
    _say(adopted, provider, as_json=as_json)
    if not adopted and code == OK and not as_json:
        output.tell(f"no runs to adopt in the store of {provider}")
    return code


def _say(adopted: list[Record], provider: str, *, as_json: bool) -> None:
    if as_json:
        output.out_json([{"run": of.run, "provider": provider} for of in adopted])
        return
    for of in adopted:
        output.out(of.run)
        output.tell(f"adopted {of.run}. {ways(of.run)}")


def _opened(name: str) -> Store:
    """Return the store of the provider *name*. Raises Unavailable if other machines cannot read it."""
    found = _store(name)
    if found is None:
        what = f"runs on '{name}' cannot be adopted: other machines cannot read its store"
        raise Unavailable(what, "use the machine that started the run")
    return found


def _store(name: str) -> Store | None:
    provider, options = cleanup.configured(name)
    client = provider.connect(Facts(options))
    if not isinstance(client, SupportsAdoption):
        return None
    return Store(provider, client, client, inputs.profile_in_use(Path.cwd()))


def _not_here(store: Store) -> list[str]:
    """Return the runs of the store that have no record here; names that are no run ids are left out."""
    here = {of.run for of in run_record.all_runs()}
    return sorted(
        run for run in store.adopts.kept_runs() if run_record.RUN.fullmatch(run) and run not in here
    )


def _adopt(run: str, store: Store) -> Record:
    if not run_record.RUN.fullmatch(run):
        what = f"'{run}' is not the full name of a run, such as mnist-7k2m9p"
        raise UsageError(what, "runspec list --remote shows the runs that can be adopted")
    with run_record.name_lock(run[:-7], output.tell):
        of = run_record.Record(run_record.runs_folder() / run)
        if of.folder.exists():
            _refuse_known(of)
        else:
            with run_record.site_lock(output.tell, shared=True):
                of = _put_on_record(run, store)
    with of.opened(output.tell) as journal:
        engine.look(of.plan, journal, clients.connect(of)[1])
    return of


def _refuse_known(of: Record) -> None:
    """Raise UsageError if the record of a run is complete here; a run that was adopted during its apply is not."""
    memory = of.memory()
    if memory.deleted or apply.is_made(of.plan, memory):
        deleted = ", which was destroyed" if memory.deleted else ""
        raise UsageError(
            f"this machine has a record of {of.run}{deleted}", "see runspec list --all"
        )


def _put_on_record(run: str, store: Store) -> Record:
    name = store.provider.name
    content = store.adopts.kept_state(run)
    if content is None:
        if run not in store.adopts.kept_runs():
            what = f"there is no run '{run}' in the store of {name}"
            raise UsageError(what, "runspec list --remote shows the runs that can be adopted")
        what = (
            f"{run} has no state in the store of {name}: an earlier version of runspec started it"
        )
        hint = f"use the machine that started it, or end it with runspec gc {name} --yes --alive"
        raise Conflict(what, hint)
    kept = engine.read(content, run)
    if kept.provider != name:
        what = f"{run} runs on '{kept.provider}'"
        raise OfAnother(what, f"runspec adopt {kept.provider} {run}")
    found = engine.understood(kept, store.provider, store.own.found)
    engine.demand_submitted(found, store.provider.connect(found.facts))
    path = store.own.path
    return engine.put_on_record(found, Path.cwd(), path and path.absolute())


def remote() -> tuple[list[dict[str, Any]], int]:
    """Return a row for each run in the stores of the profile that has no record here, and the exit code.

    The error of a store that cannot be read is printed, and the other stores are still listed.
    """
    rows: list[dict[str, Any]] = []
    code = OK
    for name in inputs.profile_in_use(Path.cwd()).found.providers:
        try:
            with registry.extras():
                store = _store(name)
                rows += _rows(store) if store is not None else []
        except InvalidSpec:
            raise  # the profile is wrong, or not trusted: that stands in the way of all of them
        except RunspecError as exc:
            output.tell(f"{name}: {exc.message}")
            code = code or exc.exit_code
    return rows, code


def _rows(store: Store) -> list[dict[str, Any]]:
    rows = (_row(run, store) for run in _not_here(store))
    return [row for row in rows if row is not None]


def _row(run: str, store: Store) -> dict[str, Any] | None:
    """Return the row of a run for `list`, or None if it belongs to another provider.

    The row of a run that cannot be adopted has the reason.
    """
    began = 0.0
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
        status = _standing(run, store)
        state, reason = str(status.state), status.reason
    except Damaged as exc:
        state, reason = "unreadable", exc.message
    return {
        "run": run,
        "name": run[:-7],
        "provider": store.provider.name,
        "state": state,
        "reason": reason,
        "began": began,
    }


def _standing(run: str, store: Store) -> Status:
    try:
        return store.client.state(run)
    except RunspecError as exc:
        return Status(State.WAITING, f"its state is not known now: {exc.message}")
