"""`runspec doctor PROVIDER --probe`: tests assumptions about a service in the user's own account."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runspec_jobs.cli import output
from runspec_jobs.cli.cleanup import configured
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.errors import OK, Conflict, RunspecError, Unavailable, UsageError
from runspec_jobs.provider import (
    Client,
    Facts,
    Observation,
    Options,
    Probe,
    Provider,
    Request,
    SupportsProbes,
    Verdict,
)
from runspec_jobs.state import probe_leftovers
from runspec_jobs.state.probe_leftovers import Left, Session

PAGE = "docs/unverified.md"


@dataclass(frozen=True)
class Context:
    """The context of a probe: see `runspec_jobs.provider.probe.ProbeContext`."""

    session: Session
    sleep: Callable[[float], None]

    @property
    def name(self) -> str:
        return self.session.name

    def note(self, what: str, by_hand: str, *remove: Request) -> None:
        self.session.note(Left(what, by_hand, remove))

    def tell(self, line: str) -> None:
        output.tell(f"  {line}")


def probe(name: str | None, only: str | None, *, node: bool, yes: bool, as_json: bool) -> int:
    """Run the probes of one provider, or only those in *only*, and print what each has observed."""
    if name is None:
        raise UsageError(
            "--probe needs a provider", "for example: runspec doctor aws-batch --probe"
        )
    if node:
        line = f"runspec doctor {name} --node"
        raise UsageError("--node and --probe cannot be combined", f"run {line} by itself")
    provider, options = configured(name)
    if not isinstance(provider, SupportsProbes):
        raise Unavailable(f"'{name}' has no probes", f"see {PAGE}")
    chosen = _chosen(tuple(provider.probes(options)), only)
    _announce(provider.name, chosen)
    if not yes:
        _ask(provider.name)
    with probe_leftovers.alone(provider.name) as free:
        if not free:
            what = f"another runspec is running probes of '{provider.name}'"
            raise Conflict(what, "wait until it has ended")
        _clean_up(provider)
        return _carried_out(provider, options, chosen, as_json=as_json)


def _chosen(probes: Sequence[Probe], only: str | None) -> list[Probe]:
    if only is None:
        return list(probes)
    wanted = [word.strip() for word in only.split(",")]
    if unknown := [word for word in wanted if word not in {one.id for one in probes}]:
        raise UsageError(
            f"there is no probe '{unknown[0]}'",
            f"choose one of {', '.join(one.id for one in probes)}",
        )
    before = {one.id: one.after for one in probes}
    for word in wanted:
        if (needed := before[word]) is not None and needed not in wanted:
            wanted.append(needed)
    return [one for one in probes if one.id in wanted]


def _announce(name: str, probes: Sequence[Probe]) -> None:
    for each in probes:
        output.tell(f"{each.id:10} {_time(each.seconds):>7} {_money(each.usd)}  {each.title}")
    seconds, usd = sum(each.seconds for each in probes), sum(each.usd for each in probes)
    one = len(probes) == 1
    output.tell(
        f"{'1 probe creates' if one else f'{len(probes)} probes create'} resources in your account at "
        f"{name} and {'deletes' if one else 'delete'} them again: "
        f"about {_time(seconds)}, at most {_money(usd).strip()}"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _money(usd: float) -> str:
    return f"{usd:.2f} USD" if usd >= 0.01 or usd == 0 else "<0.01 USD"


def _ask(name: str) -> None:
    if not sys.stdin.isatty():
        what = "cannot ask for confirmation: standard input is not a terminal"
        raise UsageError(what, f"runspec doctor {name} --probe --yes runs them without asking")
    print("run them? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not confirmed: no probe was run")


def _clean_up(provider: Provider) -> None:
    """Delete the resources that killed sessions have left. Raises Unavailable if one cannot be deleted."""
    for session in probe_leftovers.sessions(provider.name):
        things = "1 resource" if len(session.made) == 1 else f"{len(session.made)} resources"
        output.tell(f"deleting {things} that {session.name} has left")
        probe_leftovers.clean(session, provider, output.tell)
        if session.made:
            _by_hand(provider.name, session.made)
            raise Unavailable(f"cannot delete all resources that {session.name} has left")


def _carried_out(
    provider: Provider, options: Options, probes: Sequence[Probe], *, as_json: bool
) -> int:
    client = provider.connect(Facts(options))
    name = f"probe-{os.urandom(5).hex()}"
    session = Session.begin(provider.name, name, options.model_dump(mode="json"))
    rows: list[dict[str, Any]] = []
    cut_off = False
    try:
        with output.interruptible() as sleep:
            for row in _observed(client, Context(session, sleep), probes):
                rows.append(row)
                if not as_json:
                    _print(row)
    except KeyboardInterrupt:
        cut_off = True
        output.tell("interrupted; deleting the resources of the probes")
    finally:
        try:
            session.clean(client, output.tell)
        finally:
            _by_hand(provider.name, session.made)
    if as_json:
        left = [{"what": one.what, "by_hand": one.by_hand} for one in session.made]
        output.out_json({"provider": provider.name, "probes": rows, "left": left})
    if cut_off:
        raise KeyboardInterrupt
    output.tell(f"assumptions without a probe, and how to check them by hand: {PAGE}")
    refuted = any(row["verdict"] == Verdict.REFUTED for row in rows)
    return Unavailable.exit_code if refuted or session.made else OK


def _observed(
    client: Client, context: Context, probes: Sequence[Probe]
) -> Iterator[dict[str, Any]]:
    for one in probes:
        context.sleep(0)  # raises KeyboardInterrupt if Ctrl-C was pressed during the last probe
        output.tell(f"{one.id}: {one.title}")
        began = time.monotonic()
        try:
            found = one.run(client, context)
        except RunspecError as exc:
            found = Observation(Verdict.UNKNOWN, exc.message)
        seconds = round(time.monotonic() - began, 1)
        yield {
            "id": one.id,
            "title": one.title,
            "verdict": str(found.verdict),
            "seen": found.seen,
            "seconds": seconds,
        }


def _print(row: dict[str, Any]) -> None:
    output.out(f"{row['verdict']:15} {row['id']:10} {plain(row['title'])}")
    output.out(f"{'':26} seen: {plain(row['seen'])} ({row['seconds']:.1f} s)")


def _by_hand(name: str, still: Sequence[Left]) -> None:
    if not still:
        return
    things = "1 resource is" if len(still) == 1 else f"{len(still)} resources are"
    output.tell(f"{things} left; runspec gc {name} --yes tries to delete again, or by hand:")
    for one in still:
        output.tell(f"  {one.by_hand}")
