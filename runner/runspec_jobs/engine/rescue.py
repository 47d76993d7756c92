"""Ends runs whose record is damaged: by their id, or by what their service says that belongs to them."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from typing import Any

from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Damaged, RunspecError, UnknownOutcome
from runspec_jobs.load import registry
from runspec_jobs.logs import outage
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Client,
    Orphan,
    Provider,
    State,
    Status,
    SupportsEndById,
    SupportsOrphans,
)
from runspec_jobs.state import atomic_io, run_record
from runspec_jobs.state.run_record import Record

END_S = 300.0


def cancel(record: Record, damage: Damaged, reporter: Reporter) -> Status:
    """End a run of whose record *damage* was found, and note it if that can be written.

    Raises *damage*, with a way out, if the provider is not known or cannot do that.
    """
    _end(record, damage, reporter, delete=False)
    # The jobs have ended, and the record is damaged anyway.
    with contextlib.suppress(RunspecError), record.open_journal(reporter.wait) as journal:
        if journal.memory.want == "run":
            journal.add("want", want="cancel")
        if journal.memory.status is None:
            journal.add("ended", state=str(State.CANCELLED), reason=damage.message, exit_code=None)
    return Status(State.CANCELLED, damage.message)


def destroy(record: Record, damage: Damaged, reporter: Reporter) -> None:
    """End a run of whose record *damage* was found, and delete what was made for it alone, as `cancel` does."""
    _end(record, damage, reporter, delete=True)
    forget(record, reporter)


def end_unnoted(record: Record, reporter: Reporter, *, delete: bool) -> None:
    """End what may be left of a run whose journal says that nothing of it was begun: it may have lost its end."""
    for provider in _list_providers(record):
        if isinstance(provider, SupportsEndById) and provider.end_by_id(
            record.run, _read_texts(record), delete=delete
        ):
            reporter.note(
                f"{record.run} was there, although its record says that it had not started"
            )


def forget(record: Record, reporter: Reporter) -> None:
    """Note in a damaged record that the run was destroyed; remove the record if that cannot be written."""
    try:
        with record.open_journal(reporter.wait) as journal:
            if journal.memory.want != "destroy":
                journal.add("want", want="destroy")
            if not journal.memory.deleted:
                journal.add("deleted")
    except RunspecError:
        with atomic_io.translate_os_errors(record.folder, "remove"):
            shutil.rmtree(record.folder)


def add_way_out(record: Record, damage: Damaged) -> Damaged:
    """Return *damage* with the commands that end the run, whose provider cannot end it by its id alone."""
    name = find_provider_name(record) or "PROVIDER"
    forget = f"runspec destroy {record.run} --forget"
    more = f"or give the record up: {forget}; then runspec gc {name} finds what is left of the run"
    damage.hint = f"{damage.hint}; {more}" if damage.hint else more
    return damage


def list_texts(record: Record) -> Iterator[str]:
    """Yield every text in the plan of a run. Raises Damaged if the plan cannot be read."""
    for step in record.plan.steps:
        yield from _list_strings(model.write_step(step))


def find_provider_name(record: Record) -> str | None:
    """Return the name of the provider, from whichever file of the record has it; None if none does."""
    with contextlib.suppress(Damaged):
        return record.plan.provider
    with contextlib.suppress(Damaged):
        if name := record.read_memory().about.get("provider"):
            return str(name)
    with contextlib.suppress(Damaged):
        return record.spec.provider
    return None


def _read_texts(record: Record) -> list[str]:
    try:
        return list(list_texts(record))
    except Damaged:
        return []


def _end(record: Record, damage: Damaged, reporter: Reporter, *, delete: bool) -> None:
    able = [
        provider for provider in _list_providers(record) if isinstance(provider, SupportsEndById)
    ]
    known = [
        provider
        for provider in able
        if provider.end_by_id(record.run, _read_texts(record), delete=delete)
    ]
    unsure = not known and (not able or find_provider_name(record) is None)
    if unsure and not _end_as_orphan(record, delete=delete):
        raise add_way_out(record, damage)
    reporter.note(f"{damage.message}; {record.run} was ended by its id")


def _end_as_orphan(record: Record, *, delete: bool) -> bool:
    """End a run, and with *delete* delete what its service says that belongs to it alone, as `gc` would.

    Return False if the record does not say how to reach the service, or if nothing of the run is there: another account
    and a file system that is not mounted look the same.
    """
    name = find_provider_name(record)
    if name is None:
        return False
    provider = registry.load(name)
    try:
        client = provider.connect(record.read_facts(provider))
    except Damaged:
        return False
    if not isinstance(client, SupportsOrphans):
        return False
    others = {other.run for other in run_record.list_all()} - {record.run}
    orphans = [orphan for orphan in client.find_orphans(others, ()) if orphan.run == record.run]
    for orphan in orphans:
        remove_orphan(client, orphan if delete else orphan._replace(remove=()))
    return bool(orphans)


def remove_orphan(client: Client, orphan: Orphan) -> None:
    """Delete an orphan; a live run is cancelled first, and its last save deleted as well."""
    if orphan.run is not None and orphan.alive:
        client.cancel(orphan.run)
        until, looks = time.monotonic() + END_S, outage.make_pauses()
        while not client.state(orphan.run).state.terminal:
            if time.monotonic() > until:
                raise UnknownOutcome(
                    f"{orphan.run} has not ended yet", "run the same command again"
                )
            time.sleep(next(looks))
    for request in orphan.remove:
        client.call(request)


def _list_providers(record: Record) -> Iterator[Provider]:
    """Yield the provider of a run, or all that are installed if no file of the record says which it was."""
    name = find_provider_name(record)
    # A provider that cannot be imported is skipped; another one may know the run.
    for each in registry.list_installed() if name is None else (name,):
        with contextlib.suppress(RunspecError):
            yield registry.load(each)


def _list_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _list_strings(item)
