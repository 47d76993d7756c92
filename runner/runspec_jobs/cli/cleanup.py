"""`runspec gc` and `policy`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from runspec_jobs.cli import output, plan
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.errors import OK, Damaged, Unavailable, UnknownOutcome, UsageError
from runspec_jobs.load import inputs, registry
from runspec_jobs.logs import outage
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Client,
    Facts,
    Options,
    Orphan,
    Provider,
    SupportsOrphans,
    SupportsPolicy,
)
from runspec_jobs.spec import validate
from runspec_jobs.state import probe_leftovers, run_record

END_S = 300.0


class Row(NamedTuple):
    """One orphan, as it is printed."""

    what: str
    run: str | None
    alive: bool
    removed: bool


def gc(name: str, *, yes: bool, alive: bool, as_json: bool) -> int:
    """Print the orphans of the provider called *name*; with *yes*, delete them, and with *alive* those in use too."""
    provider, options = configured(name)
    client = provider.connect(Facts(options))
    if not isinstance(client, SupportsOrphans):
        raise Unavailable(f"'{name}' leaves no resources that gc could find")
    rows = list(_of_probes(provider, yes=yes))
    records = run_record.all_runs()
    unreadable = [of for of in records if _unreadable(of)]
    kept = [of for of in records if of not in unreadable and not of.memory().deleted]
    made = {text for of in kept for text in _texts(of)}
    found = list(client.find_orphans({of.run for of in (*kept, *unreadable)}, made))
    removed = [one for one in found if yes and (alive or not one.alive)]
    for of in unreadable:  # it may need shared resources
        output.tell(
            f"the record of {of.run} cannot be read, so shared resources stay (see runspec list)"
        )
        removed = [one for one in removed if one.run is not None]
    for one in removed:
        _remove(client, one)
    rows += [Row(o.what, o.run, o.alive, removed=o in removed) for o in found]
    if as_json:
        output.out_json([row._asdict() for row in rows])
        return OK
    for row in rows:
        output.out(f"{'removed' if row.removed else 'found  '} {plain(row.what)}")
    if not rows:
        output.tell("no orphans")
    elif not yes:
        orphans = "1 orphan" if len(rows) == 1 else f"{len(rows)} orphans"
        in_use = " (and --alive for what live jobs use)" if any(row.alive for row in rows) else ""
        output.tell(f"{orphans}; to delete: runspec gc {name} --yes{in_use}")
    return OK


def _unreadable(of: run_record.Record) -> bool:
    try:
        of.memory()
        list(_texts(of))
    except Damaged:
        return True
    return False


def configured(name: str) -> tuple[Provider, Options]:
    """Return the provider of that name, and its options from the profile."""
    provider = registry.load(name)
    own = inputs.profile_in_use(Path.cwd())
    options, problems = validate.model(provider.options_model, own.settings(name))
    if options is None:
        raise UsageError(f"the profile: {problems[0].what}", problems[0].hint)
    inputs.demand_trust(own, provider)
    return provider, options


def _of_probes(provider: Provider, *, yes: bool) -> Iterator[Row]:
    """Yield the resources that killed sessions of `doctor --probe` made; with *yes*, delete them first."""
    if not probe_leftovers.sessions(provider.name):
        return
    with probe_leftovers.alone(provider.name) as free:
        for session in probe_leftovers.sessions(provider.name):
            made = session.made.copy()
            if yes and free:
                probe_leftovers.clean(session, provider, output.tell)
            for one in made:
                removed = one not in session.made
                yield Row(f"{one.what}, of {session.name}", None, not free, removed=removed)


def _texts(of: run_record.Record) -> Iterator[str]:
    for step in of.plan.steps:
        yield from _strings(model.step_json(step))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _remove(client: Client, one: Orphan) -> None:
    if one.run is not None and one.alive:
        _end(client, one.run)
    for request in one.remove:
        client.call(request)


def _end(client: Client, run: str) -> None:
    """Cancel *run* and wait until it has ended, so that its last save is deleted as well."""
    client.cancel(run)
    end, looks = time.monotonic() + END_S, outage.pauses()
    while not client.state(run).state.terminal:
        if time.monotonic() > end:
            raise UnknownOutcome(f"{run} has not ended yet", "run the same command again")
        time.sleep(next(looks))


def policy(file: Path, *, of_job: bool, output_format: str, as_json: bool) -> int:
    """Print the minimal permissions for the plan of a spec, or those of its job."""
    printer = output.ProgressPrinter()
    loaded = plan.load(file, printer, output_format=output_format, as_json=as_json)
    found = plan.each(loaded)[-1]
    if not isinstance(found.provider, SupportsPolicy):
        raise Unavailable(f"'{found.provider.name}' has no permissions that runspec could list")
    made = model.make_plan(found.provider, found.spec, model.PREVIEW, found.facts)
    rights = found.provider.policy(made.steps, found.facts.options, of_job=of_job)
    output.out(json.dumps(rights, indent=2))
    return OK
