"""`runspec doctor PROVIDER --probe`: tests assumptions about a service in the user's own account."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from runspec_jobs.api import probes as api
from runspec_jobs.api.probes import PAGE, Left, Observed, Probe, Probing, Verdict
from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.errors import OK, Unavailable, UsageError
from runspec_jobs.options.setup_verbs import DoctorOptions


def probe(options: DoctorOptions) -> int:
    """Run the probes of one provider, or only those of `--only`, and print what each has observed."""
    name, only = options.provider, options.only
    if name is None:
        raise UsageError(
            "--probe needs a provider", "for example: runspec doctor aws-batch --probe"
        )
    if options.node:
        line = f"runspec doctor {name} --node"
        raise UsageError("--node and --probe cannot be combined", f"run {line} by itself")
    ids = None if only is None else [word.strip() for word in only.split(",")]
    probing = api.choose(name, ids)
    _announce(name, probing.probes)
    if not options.yes:
        if not sys.stdin.isatty():
            what = "cannot ask for confirmation: standard input is not a terminal"
            raise UsageError(what, f"runspec doctor {name} --probe --yes runs them without asking")
        print("run them? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise UsageError("not confirmed: no probe was run")
    return _carried_out(name, probing, as_json=options.as_json)


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


def _carried_out(name: str, probing: Probing, *, as_json: bool) -> int:
    rows: list[Observed] = []
    cut_off = False
    try:
        with (
            output.interruptible() as sleep,
            contextlib.closing(probing.run(on_event=output.tell_event, sleep=sleep)) as observed,
        ):
            for row in observed:
                rows.append(row)
                if not as_json:
                    _print(row)
    except KeyboardInterrupt:
        cut_off = True
    finally:
        _by_hand(name, probing.left)
    if as_json:
        left = [{"what": thing.what, "by_hand": thing.by_hand} for thing in probing.left]
        shown = [row._asdict() for row in rows]
        document = {"provider": name, "probes": shown, "left": left}
        output.out_json("runspec.probe/v1", document)
    if cut_off:
        raise KeyboardInterrupt
    output.tell(f"assumptions without a probe, and how to check them by hand: {PAGE}")
    refuted = any(row.verdict == Verdict.REFUTED for row in rows)
    return Unavailable.exit_code if refuted or probing.left else OK


def _print(row: Observed) -> None:
    output.out(f"{row.verdict:15} {row.id:10} {escape_control(row.title)}")
    output.out(f"{'':26} seen: {escape_control(row.seen)} ({row.seconds:.1f} s)")


def _by_hand(name: str, still: Sequence[Left]) -> None:
    if not still:
        return
    things = "1 resource is" if len(still) == 1 else f"{len(still)} resources are"
    output.tell(f"{things} left; runspec gc {name} --yes tries to delete again, or by hand:")
    for thing in still:
        output.tell(f"  {thing.by_hand}")
