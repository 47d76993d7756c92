"""`runspec apply`: starts or continues the run of a spec, and follows it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runspec_jobs.cli import output, plan, smoke
from runspec_jobs.cli.log_printer import LogPrinter
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.engine.clients import shape
from runspec_jobs.engine.start_run import start
from runspec_jobs.engine.wait import wait, ways
from runspec_jobs.errors import DETACHED, OK, JobFailed, UsageError
from runspec_jobs.load import inputs
from runspec_jobs.logs import follow
from runspec_jobs.provider import Client, State, Status
from runspec_jobs.spec.types import seconds
from runspec_jobs.state import run_group
from runspec_jobs.state.run_record import Record


@dataclass(frozen=True)
class ApplyOptions:
    """The options of `apply`. A rehearsal applies to emulators, which end with it."""

    file: Path
    detach: bool = False
    new: bool = False
    smoke: bool = False
    timeout: str | None = None
    output_format: str = "text"
    as_json: bool = False
    rehearsed: bool = False

    @property
    def following(self) -> Following:
        return Following(as_json=self.as_json, rehearsed=self.rehearsed)


@dataclass(frozen=True)
class Following:
    """What the commands that follow a run do differently: `apply`, `rehearse` and, if *of_logs* is true, `logs`."""

    as_json: bool
    of_logs: bool = False
    rehearsed: bool = False


def apply(options: ApplyOptions) -> int:
    limit_s = wait_limit(options.timeout)
    printer = output.ProgressPrinter(quiet=options.as_json)
    found = plan.load(
        options.file, printer, output_format=options.output_format, as_json=options.as_json
    )
    if found.profile is not None and not options.as_json:
        output.tell(f"profile {found.profile}")
    if found.spec.scaling is None:
        run_group.forget(found.spec.name)  # from now on the name means this run
        return _apply(found, options, printer, limit_s)
    run_group.keep(found.spec, found.text.data)
    code = OK
    for one in plan.each(found):
        ended = _apply(one, options, printer, limit_s)
        if ended == DETACHED:
            return ended
        code = code or ended
    if not options.as_json:
        output.tell(f"compare the sizes: runspec report {found.spec.name}")
    return code


def _apply(
    found: inputs.PlanInputs,
    options: ApplyOptions,
    printer: output.ProgressPrinter,
    limit_s: float | None,
) -> int:
    began = time.monotonic()
    first = smoke.job_of(found) if options.smoke else None
    client = found.provider.connect(found.facts)
    if first is not None:
        code = _smoke(first, client, options, printer, limit_s)
        if code is not None:
            return code
    with printer:
        started = start(found, client, printer, new=options.new)
    if started.status is not None:
        return _result(started.record, started.status, as_json=options.as_json)
    if options.detach:
        return _detached(started.record.run, as_json=options.as_json)
    left_s = None if limit_s is None else limit_s - (time.monotonic() - began)
    left_s = left_s if first is not None else limit_s
    return watch(started.record, client, options.following, left_s)


def _smoke(
    first: inputs.PlanInputs,
    client: Client,
    options: ApplyOptions,
    printer: output.ProgressPrinter,
    limit_s: float | None,
) -> int | None:
    """Run the smoke test, unless an equal one has succeeded; return an exit code if the job must not start."""
    with printer:
        started = start(first, client, printer, new=options.new)
        if started.status is not None and started.status.state is State.GONE:
            started = start(first, client, printer, new=True)  # it is not known how it ended
    record, status = started.record, started.status
    lines: list[str] = []
    if status is None:

        def heard(line: follow.Line) -> None:
            if line.rank == 0:
                lines.append(follow.text(line.text, plain))
            printed(line)

        with printing(record, options.following) as printed:
            status = _followed(record, client, options.following, limit_s, heard)
    if status is None:
        return DETACHED
    if status.state is State.SUCCEEDED:
        return None
    more = smoke.report_failure(record.run, status, lines, as_json=options.as_json)
    return _result(record, status, more, as_json=options.as_json)


def wait_limit(timeout: str | None) -> float | None:
    """Return the seconds of `--timeout`, or None without it."""
    if timeout is None:
        return None
    try:
        return float(seconds(timeout))
    except ValueError as exc:
        what = f"--timeout: '{timeout}' is not a length of time"
        raise UsageError(what, "write 90s, 10m, 2h or 1h30m") from exc


def watch(
    old: Record,
    client: Client,
    how: Following,
    limit_s: float | None,
    wanted: follow.Wanted = follow.every,
) -> int:
    """Follow a run to its end, and return the exit code."""
    with printing(old, how) as printed:
        status = _followed(old, client, how, limit_s, printed, wanted)
    return DETACHED if status is None else _result(old, status, as_json=how.as_json)


def _followed(
    old: Record,
    client: Client,
    how: Following,
    limit_s: float | None,
    shown: Callable[[follow.Line], None],
    wanted: follow.Wanted = follow.every,
) -> Status | None:
    """Follow a run and return its last status; None after Ctrl-C, which leaves the run alone."""
    try:
        with output.interruptible() as sleep:
            return wait(
                old,
                client,
                shown,
                output.ProgressPrinter(quiet=how.as_json),
                wanted=wanted,
                timeout_s=limit_s,
                answered=not how.of_logs,  # the service has just accepted the run, or reported its state
                stops=not how.of_logs,
                publishes=not (how.of_logs or how.rehearsed),
                sleep=sleep,
            )
    except KeyboardInterrupt:
        ended = "interrupted; the job is cancelled and its resources are deleted"
        output.tell(ended if how.rehearsed else f"detached; the job goes on. {ways(old.run)}")
        return None


@contextlib.contextmanager
def printing(old: Record, how: Following) -> Iterator[Callable[[follow.Line], None]]:
    """Yield the function that prints a line of a log, or a part of one. Piped output of `logs` ends as the log does."""
    if how.as_json and not how.of_logs:
        yield lambda line: None
        return
    exact = how.of_logs and not how.as_json and not sys.stdout.isatty()
    with LogPrinter(*shape(old), json=how.as_json, exact=exact) as printer:
        yield printer.line


def _detached(run: str, *, as_json: bool) -> int:
    if as_json:
        output.out_json({"run": run, "state": "started"})
    else:
        output.out(run)
        output.tell(ways(run))
    return OK


def _result(
    old: Record, status: Status, more: Mapping[str, object] | None = None, *, as_json: bool
) -> int:
    if as_json:
        output.out_json(
            {
                "run": old.run,
                "provider": old.plan.provider,
                "state": status.state,
                "reason": status.reason,
                "exit_code": status.exit_code,
                **(more or {}),
            }
        )
    else:
        output.tell(f"{old.run} {status.state}{': ' + status.reason if status.reason else ''}")
    return OK if status.state is State.SUCCEEDED else JobFailed.exit_code
