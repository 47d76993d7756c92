"""`runspec apply`: starts or continues the run of a spec, and follows it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runspec_jobs.api import lifecycle as api
from runspec_jobs.api.events import Event
from runspec_jobs.api.jobs import Job, make_smoke_test
from runspec_jobs.api.lifecycle import (
    ALL,
    Line,
    Run,
    Selection,
    State,
    Status,
    show_line,
    suggest_commands,
)
from runspec_jobs.api.specs import is_chain
from runspec_jobs.cli import costs, output, plan, smoke
from runspec_jobs.cli.live import closing, github_log, ports
from runspec_jobs.cli.live.about import AboutRun
from runspec_jobs.cli.live.area import LiveArea
from runspec_jobs.cli.live.log_printer import LogPrinter
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.diagnostics.terminal_text import strip_sequences
from runspec_jobs.errors import DETACHED, OK, JobFailed, UsageError
from runspec_jobs.options.start_verbs import ApplyOptions

Sleep = Callable[[float], None]


@dataclass(frozen=True)
class Following:
    """What the commands that follow a run do differently: `apply`, `rehearse` and, if *of_logs* is true, `logs`."""

    as_json: bool
    of_logs: bool = False
    rehearsed: bool = False
    node: int | None = None
    task: int | None = None
    selection: Selection = ALL


def _following(options: ApplyOptions) -> Following:
    return Following(as_json=options.as_json, rehearsed=options.rehearsed)


def apply(options: ApplyOptions) -> int:
    if is_chain(options.file):
        from runspec_jobs.cli import chain

        if options.from_save is not None:
            message = f"--from is for one job, and {options.file} has several"
            raise UsageError(message, "apply --resume begins each job with its own last save")
        return chain.apply_chain(
            options,
            detach=options.detach,
            new=options.new,
            resume=options.resume,
            yes=options.yes,
            rehearsed=options.rehearsed,
        )
    plan.refuse_job_options(options.only, options.until)
    printer = ProgressPrinter(quiet=options.as_json, live=True)
    job = plan.load(
        options.file,
        printer,
        plan.overrides_of(options),
        output_format=options.output_format,
        as_json=options.as_json,
    )
    if job.profile is not None and not options.as_json:
        output.tell(f"profile {job.profile}")
    code, sizes = OK, job.sizes()
    smoked = [(make_smoke_test(one) if options.smoke else None, one) for one in sizes]
    # One question for all sizes and their smoke tests, before the first of them costs anything.
    ask = _confirmation(smoked, options)
    for first, one in smoked:
        ended = _apply(first, one, options, printer, functools.partial(ask, one))
        # With --detach or after Ctrl-C, the sizes that are left are not started.
        if ended == DETACHED:
            return ended
        code = code or ended
    if job.spec.scaling is not None and not options.as_json:
        output.tell(f"compare the sizes: runspec report {job.spec.name}")
    return code


def _apply(
    first: Job | None,
    job: Job,
    options: ApplyOptions,
    printer: ProgressPrinter,
    confirm: Callable[[], None],
) -> int:
    """Apply *job* after its smoke test *first*, if there is one."""
    began = time.monotonic()
    if first is not None:
        code = _smoke(first, options, printer, confirm)
        if code is not None:
            return code
    with _starting(job, options), printer:
        begin = options.resume if options.from_save is None else options.from_save
        run = api.apply(job, new=options.new, resume=begin, on_event=printer, confirm=confirm)
    if run.ended is not None:
        return print_result(run, run.ended, _following(options))
    if options.detach:
        return _detached(run, as_json=options.as_json)
    # --timeout limits the whole command, and the smoke test has had its share.
    spent_s = 0.0 if first is None else time.monotonic() - began
    left_s = None if options.timeout is None else options.timeout - spent_s
    return watch(run, _following(options), left_s)


def _confirmation(
    smoked: Sequence[tuple[Job | None, Job]], options: ApplyOptions
) -> Callable[[Job], None]:
    """Return the function that asks, once, before the first job is started.

    Smoke tests count, too. Raises UsageError if `--max-usd` refuses all jobs together.
    """
    if options.rehearsed:
        return lambda _: None
    jobs = [job for pair in smoked for job in pair if job is not None]
    costs.demand_below(jobs, options.max_usd)
    return costs.Confirmation(jobs, yes=options.yes, quiet=options.as_json)


def _smoke(
    first: Job,
    options: ApplyOptions,
    printer: ProgressPrinter,
    confirm: Callable[[], None],
) -> int | None:
    """Run the smoke test, unless an equal one has succeeded; return an exit code if the job must not start."""
    with _starting(first, options), printer:
        run = api.apply(first, new=options.new, on_event=printer, confirm=confirm)
        if run.ended is not None and run.ended.state is State.GONE:
            run = api.apply(
                first, new=True, on_event=printer, confirm=confirm
            )  # how the run ended is not known
    status = run.ended
    lines: list[str] = []
    if status is None:

        def heard(line: Line) -> None:
            # A smoke test that fails is explained by the log of its first node.
            if line.rank == 0:
                lines.append(show_line(line.text, strip_sequences))
            shown(line)

        with printing(run, _following(options)) as printed:
            shown, printed.line = printed.line, heard
            status = _followed(run, _following(options), options.timeout, printed)
    if status is None:
        return DETACHED
    if status.state is State.SUCCEEDED:
        return None
    more = smoke.report_failure(run, status, lines, as_json=options.as_json)
    return print_result(run, status, _following(options), more)


def watch(run: Run, how: Following, limit_s: float | None) -> int:
    """Follow a run to its end, and return the exit code."""
    with printing(run, how) as printed:
        status = _followed(run, how, limit_s, printed)
    return DETACHED if status is None else print_result(run, status, how)


def _followed(run: Run, how: Following, limit_s: float | None, printed: Printed) -> Status | None:
    """Follow a run and return its last status; None after Ctrl-C, which leaves the run alone.

    Tunnels to the ports of its spec are open meanwhile, unless `logs` follows it.
    """
    tunnels = ports.OpenPorts(run)
    see = printed.status if how.of_logs else tunnels.after(printed.status)
    try:
        with tunnels, output.interruptible() as sleep:
            return run.follow(
                printed.line,
                on_unfinished=printed.unfinished,
                on_status=see,
                on_metric=printed.metric,
                node=how.node,
                task=how.task,
                selection=how.selection,
                timeout_s=limit_s,
                on_event=printed.event,
                stops=not how.of_logs,
                publishes=not (how.of_logs or how.rehearsed),
                sleep=printed.ticking(sleep),
            )
    except KeyboardInterrupt:
        ended = "interrupted; the job is cancelled and its resources are deleted"
        output.tell(
            ended if how.rehearsed else f"detached; the job goes on. {suggest_commands(run.id)}"
        )
        return None


@dataclass
class Printed:
    """The functions that print the lines of a log, or parts of them, and show what has not ended."""

    line: Callable[[Line], None]
    unfinished: Callable[[Line], None] | None = None
    status: Callable[[Status], None] = lambda status: None
    metric: Callable[[int, float], None] = lambda task, value: None
    event: Callable[[Event], None] = lambda event: None
    ticking: Callable[[Sleep], Sleep] = lambda sleep: sleep


@contextlib.contextmanager
def printing(run: Run, how: Following, *, follows: bool = True) -> Iterator[Printed]:
    """Yield the functions that print the lines of a log. Piped output of `logs` ends as the log does.

    If it *follows* the run, there is a live area at a terminal.
    """
    events = ProgressPrinter(quiet=how.as_json)
    if how.as_json and not how.of_logs:
        yield Printed(lambda line: None, event=events)
        return
    # A log in a pipe or a file is the job's own bytes; a terminal gets no control characters of it.
    exact = how.of_logs and not how.as_json and not sys.stdout.isatty()
    with contextlib.ExitStack() as stack:
        if not how.of_logs:
            stack.enter_context(github_log.log(f"log of {run.id}"))
        about = _about(run, how) if follows and output.redrawable() and not how.as_json else None
        area = None
        if output.redrawable():
            area = stack.enter_context(LiveArea(None if about is None else about.text))
        printer = LogPrinter(
            *run.shape,
            json=how.as_json,
            exact=exact,
            coloured=output.coloured(),
            timed=how.selection.timed,
            screen=area,
        )
        stack.enter_context(printer)
        printed = Printed(printer.line, printer.unfinished, event=events)
        if area is not None and about is not None:
            printed.status, printed.metric, printed.ticking = (
                about.status,
                about.metric,
                area.ticking,
            )
            if (
                output.interactive()
            ):  # otherwise the reasons of waiting are printed on standard error
                printed.event = lambda event: None if event.kind == "note" else events(event)
        yield printed


def _about(run: Run, how: Following) -> AboutRun:
    metric = run.record.spec.metric
    return AboutRun(
        run.began,
        run.shape[1],
        "" if metric is None else metric.name,
        coloured=not os.environ.get("NO_COLOR"),
        interrupt="Ctrl-C cancels it" if how.rehearsed else "Ctrl-C detaches",
    )


@contextlib.contextmanager
def _starting(job: Job, options: ApplyOptions) -> Iterator[None]:
    """Put the steps of an apply into a group, in GitHub Actions."""
    with (
        contextlib.nullcontext()
        if options.as_json
        else github_log.progress(f"start {job.spec.name}")
    ):
        yield


def _detached(run: Run, *, as_json: bool) -> int:
    if as_json:
        print_result(run, Status(State.WAITING), Following(as_json=True))
    else:
        output.out(run.id)
        output.tell(suggest_commands(run.id))
        for command in ports.suggest_tunnels(run):
            output.tell(f"to reach its port: {command}")
    return OK


def print_result(
    run: Run, status: Status, how: Following, more: Mapping[str, object] | None = None
) -> int:
    """Print how a run has ended, and return the exit code."""
    if how.as_json:
        output.out_json(
            "runspec.result/v1",
            {
                "run": run.id,
                "provider": run.provider,
                "state": status.state,
                "reason": status.reason,
                "exit_code": status.exit_code,
                **(more or {}),
            },
        )
    else:
        ended_well = status.state is State.SUCCEEDED
        tell = output.tell if ended_well else output.tell_failure
        tell(closing.line(run, status, kept=not how.rehearsed))
        # The end of the log stands right above at a terminal, if only one node has written it.
        shown = run.shape == (1, 1) and how.selection.is_all and sys.stdout.isatty()
        for text in () if shown else closing.log_end(run, status):
            output.tell(text)
    return OK if status.state is State.SUCCEEDED else JobFailed.exit_code
