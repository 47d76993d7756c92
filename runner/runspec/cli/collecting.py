"""`runspec gc` and `policy`."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runspec import check, gather, home, plan, profile, record, registry
from runspec.cli import console, planning
from runspec.errors import OK, Unavailable, UnknownOutcome, UsageError
from runspec.provider import Client, Collects, Facts, Litter, Permits
from runspec.report import plain

END_S = 300.0


def gc(args: Namespace) -> int:
    """Show what no record knows; with --yes, take it away."""
    client = _client(args.provider)
    if not isinstance(client, Collects):
        raise Unavailable(f"'{args.provider}' leaves nothing that no record knows")
    kept = [of for of in record.all_runs() if not of.memory().deleted]
    runs, made = {of.run for of in kept}, {text for of in kept for text in _texts(of)}
    found = list(client.litter(runs, made))
    gone = [one for one in found if args.yes and (args.alive or not one.alive)]
    for one in gone:
        _remove(client, one)
    if args.json:
        rows = [
            {"what": o.what, "run": o.run, "alive": o.alive, "removed": o in gone} for o in found
        ]
        console.out_json(rows)
        return OK
    for one in found:
        console.out(f"{'removed' if one in gone else 'found  '} {plain(one.what)}")
    if not found:
        console.tell("nothing is left over")
    elif not args.yes:
        console.tell(f"{len(found)} things; runspec gc {args.provider} --yes takes them away")
    return OK


def _client(name: str) -> Client:
    provider = registry.load(name)
    path = home.profile_path(Path.cwd())
    found = profile.Profile() if path is None else gather.read_profile(path)
    options, problems = check.model(provider.options_model, found.providers.get(name, {}))
    if options is None:
        raise UsageError(f"the profile: {problems[0].what}", problems[0].hint)
    return provider.connect(Facts(options))


def _texts(of: record.Record) -> Iterator[str]:
    for step in of.plan.steps:
        yield from _strings(plan.step_json(step))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _remove(client: Client, one: Litter) -> None:
    if one.run is not None and one.alive:
        _end(client, one.run)
    for request in one.remove:
        client.call(request)


def _end(client: Client, run: str) -> None:
    """End *run* and wait until it has: what it saves at its end belongs to it, too."""
    client.cancel(run)
    end = time.monotonic() + END_S
    while not client.state(run).state.terminal:
        if time.monotonic() > end:
            raise UnknownOutcome(f"{run} has not ended yet", "run the same command again")
        time.sleep(0.5)


def policy(args: Namespace) -> int:
    """Print the least rights for the plan of a spec."""
    found = planning.each(planning.load(args, console.Told()))[-1]
    if not isinstance(found.provider, Permits):
        raise Unavailable(f"'{found.provider.name}' cannot say which rights a plan needs")
    made = plan.make(found.provider, found.spec, plan.PREVIEW, found.facts)
    rights = found.provider.policy(made.steps, found.facts.options, of_job=args.job)
    console.out(json.dumps(rights, indent=2))
    return OK
