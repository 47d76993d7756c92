"""What the verbs print of chains: plans, the progress of `apply`, and their status."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from runspec_jobs.api import chains, jobs, listing
from runspec_jobs.api.chains import Chain, ChainRun, JobStatus
from runspec_jobs.api.lifecycle import LogLine, State
from runspec_jobs.cli import costs, diagnostics, output, spending
from runspec_jobs.cli.live import refresh
from runspec_jobs.cli.live.ports import suggest_tunnels
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.cli.views import node_table, plan_view
from runspec_jobs.diagnostics.render import escape_control, format_json
from runspec_jobs.diagnostics.terminal_text import strip_sequences
from runspec_jobs.errors import DETACHED, OK, JobFailed, RunspecError, UsageError

PLAN, STATUS = "runspec.chain-plan/v1", "runspec.chain/v1"


class ChainOptions(Protocol):
    """The options that `plan` and `apply` have in common."""

    @property
    def file(self) -> Path: ...
    @property
    def provider(self) -> str | None: ...
    @property
    def settings(self) -> Sequence[str]: ...
    @property
    def params(self) -> Sequence[str]: ...
    @property
    def words(self) -> Sequence[str]: ...
    @property
    def smoke(self) -> bool: ...
    @property
    def only(self) -> Sequence[str]: ...
    @property
    def until(self) -> Sequence[str]: ...
    @property
    def max_usd(self) -> str | None: ...
    @property
    def output_format(self) -> str: ...
    @property
    def as_json(self) -> bool: ...


def _load(path: Path, printer: ProgressPrinter, options: ChainOptions) -> Chain:
    if options.words or options.smoke:
        option = "--smoke is" if options.smoke else "words after -- are"
        what = f"{option} for one job, and {path} has several"
        raise UsageError(
            what, "change the file of the chain, or apply a job from a file of its own"
        )
    with printer:
        chain = chains.load_chain(
            path,
            provider=options.provider,
            settings=options.settings,
            params=options.params,
            only=options.only,
            until=options.until,
            on_event=printer,
        )
    form = diagnostics.wanted(options.output_format, as_json=options.as_json)
    for job in chain.jobs.values():
        if job.notes and not options.as_json:
            diagnostics.print_one(job.text, form)
    return chain


def plan_chain(options: ChainOptions, *, full: bool, resume: bool) -> int:
    """Print the plans of all jobs in their order, what each needs, and the cost of all."""
    printer = ProgressPrinter()
    chain = _load(options.file, printer, options)
    if resume:
        chain = chains.foresee_resumed(chain, on_event=printer)
    every = list(chain.jobs.values())
    costs.demand_below(every, options.max_usd)
    reasons = chains.explain_starts(chain)
    if options.as_json:
        shown = [_planned_json(chain, name, reasons.get(name, "")) for name in chain.jobs]
        output.out(format_json({"format": PLAN, "chain": chain.name, "jobs": shown}, indent=2))
        return OK
    for name, job in chain.jobs.items():
        output.out(escape_control(f"job {name}{_after(chain, name)}"))
        if name in reasons:
            output.out(escape_control(f"     starts: {reasons[name]}"))
        for mount in chain.list_copied(name):
            output.out(
                escape_control(f"     {mount} is copied by this machine when its run has ended")
            )
        for line in plan_view.view(jobs.plan(job), jobs.estimate(job), full=full):
            output.out(line)
        output.out("")
    for line in costs.together(every):
        output.out(line)
    return OK


def _after(chain: Chain, name: str) -> str:
    needs, by_service = chain.needs(name), chain.waits_by_service(name)
    if not needs:
        return ""
    listed = ", ".join(
        _describe_need(job, str(how), paired=job in by_service and chain.is_paired(name, job))
        for job, how in needs.items()
    )
    left = [job for job in needs if job not in by_service]
    if not left:
        return f", when {listed}: its service waits"
    waits = f"its service waits for {', '.join(by_service)}, and " if by_service else ""
    return f", when {listed}: {waits}apply waits for {', '.join(left)}"


def _describe_need(job: str, how: str, *, paired: bool) -> str:
    return f"{job} has {how}" + (", task by task" if paired else "")


def _planned_json(chain: Chain, name: str, why: str) -> dict[str, Any]:
    job = chain.jobs[name]
    needs = {parent: str(how) for parent, how in chain.needs(name).items()}
    planned = jobs.plan_json(jobs.plan(job))
    return {
        "job": name,
        "needs": needs,
        "why": why,
        "waits_by_service": chain.waits_by_service(name),
        "copied": chain.list_copied(name),
        "plan": {**planned, "cost": costs.to_json(jobs.estimate(job))},
    }


def apply_chain(
    options: ChainOptions,
    *,
    detach: bool,
    new: bool,
    resume: bool,
    yes: bool,
    rehearsed: bool,
) -> int:
    """Apply a chain; return 0 if all of its jobs have succeeded."""
    printer = ProgressPrinter(quiet=options.as_json)
    chain = _load(options.file, printer, options)
    every = list(chain.jobs.values())
    confirmation = None
    if not rehearsed:
        costs.demand_below(every, options.max_usd)
        confirmation = costs.Confirmation(every, yes=yes, quiet=options.as_json)
    screen = _Screen(chain, quiet=options.as_json)
    try:
        with output.interruptible(), printer:
            ends = chains.apply_chain(
                chain,
                detach=detach,
                new=new,
                resume=resume,
                on_line=screen.line,
                on_status=screen.status,
                on_event=printer,
                confirm=lambda: confirmation(every[0]) if confirmation is not None else None,
            )
    except KeyboardInterrupt:
        output.tell(
            f"detached; jobs that run go on, and the same command starts the rest. {_ways(chain)}"
        )
        return DETACHED
    if options.as_json:
        _print_json(chain.name, chain.file.path.resolve(), "run", ends)
    elif detach:
        left = [end.job for end in ends if end.state == chains.NOT_STARTED]
        if left:
            output.tell(f"not started yet: {', '.join(left)}: the same command goes on")
        output.tell(_ways(chain))
    if detach:
        return OK
    return _code(ends)


def _code(ends: Sequence[JobStatus]) -> int:
    """Return 0 if all jobs have succeeded but those that were for the failure of another one."""
    ended_well = all(end.state in (State.SUCCEEDED, chains.SKIPPED) for end in ends)
    return OK if ended_well else JobFailed.exit_code


def _ways(chain: Chain) -> str:
    return f"runspec status {chain.name}, runspec cancel {chain.name}"


class _Screen:
    """Prints what several jobs say at once, each line after the name of its job."""

    def __init__(self, chain: Chain, *, quiet: bool) -> None:
        self.width = max(map(len, chain.jobs))
        self.shapes = {
            name: (job.spec.cluster.nodes.max, len(job.tasks())) for name, job in chain.jobs.items()
        }
        self.quiet = quiet
        self.lock = threading.Lock()

    def line(self, job: str, line: LogLine) -> None:
        if self.quiet:
            return
        nodes, tasks = self.shapes[job]
        parts = [f"task {line.task}"] * (tasks > 1) + [f"node {line.node}"] * (nodes > 1)
        whose = f"[{' '.join(parts)}] " if parts else ""
        text = strip_sequences(line.text)
        with self.lock:
            output.out(f"{job:{self.width}} | {whose}{text}")

    def status(self, status: JobStatus) -> None:
        if self.quiet:
            return
        run = f" ({status.run.id})" if status.run is not None else ""
        why = f": {status.reason}" if status.reason else ""
        state = "started" if status.state == State.WAITING else status.state
        with self.lock:
            output.tell(escape_control(f"{status.job:{self.width}} {state}{run}{why}"))
            if status.run is not None and status.state == State.WAITING:
                for command in suggest_tunnels(status.run):
                    output.tell(f"{status.job:{self.width}} to reach its port: {command}")


def _print_json(chain: str, path: Path, want: str, ends: Sequence[JobStatus]) -> None:
    jobs = [job_json(end) for end in ends]
    output.out_json(STATUS, {"chain": chain, "file": str(path), "want": want, "jobs": jobs})


def job_json(status: JobStatus) -> dict[str, Any]:
    """Return the status of a job of a chain as JSON."""
    return {
        "job": status.job,
        "state": status.state,
        "reason": status.reason,
        "needs": dict(status.needs),
        "run": None if status.run is None else status.run.id,
        "provider": None if status.run is None else status.run.provider,
        "exit_code": None if status.status is None else status.status.exit_code,
    }


def status_of_chain(chain: ChainRun, *, as_json: bool) -> int:
    """Print the status of each job of a chain."""
    ends = _read_status(chain)
    if as_json:
        _print_json(chain.name, chain.record.path, chain.record.want, ends)
        return OK
    for line in _list_lines(chain, ends):
        output.out(line)
    return OK


def watch_chain(chain: ChainRun) -> int:
    """Show the status of a chain again and again, until no job waits or runs."""
    last: list[JobStatus] = []

    def look() -> Iterator[str]:
        last[:] = _read_status(chain)
        return _list_lines(chain, last)

    return refresh.repeat(look, over=lambda: bool(last) and not any(map(_is_alive, last)))


def _is_alive(job: JobStatus) -> bool:
    return job.state in (State.WAITING, State.RUNNING)


def _read_status(chain: ChainRun) -> list[JobStatus]:
    """Return the status of each job, after ending what the runs do not need: nobody may be waiting for them."""
    ends = chain.status()
    for job in ends:
        if job.run is not None and job.status is not None:
            try:
                lines = job.run.reconcile(job.status)
            except RunspecError as exc:
                lines = [exc.message]
            for line in lines:
                output.tell(escape_control(f"{job.run.id}: {line}"))
    return ends


def _list_lines(chain: ChainRun, ends: Sequence[JobStatus]) -> Iterator[str]:
    rows = [("job", "run", "state", "provider", "needs", "")]
    for job in ends:
        run = "-" if job.run is None else job.run.id
        provider = "-" if job.run is None else job.run.provider
        needs = [name if how == "succeeded" else f"{name} {how}" for name, how in job.needs.items()]
        rows.append((job.job, run, job.state, provider, ", ".join(needs) or "-", job.reason))
    wanted = {"run": "", "cancel": ", cancelled", "destroy": ", destroyed"}[chain.record.want]
    yield escape_control(f"chain {chain.name}, {chain.record.path}{wanted}")
    yield from map(escape_control, _aligned(rows))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def make_page(chain: ChainRun, ends: Sequence[JobStatus]) -> str:
    """Return the page of a chain as HTML."""
    from runspec_jobs.report.page import chain_page  # only for --html

    jobs = [
        chain_page.ReportedJob(end.job, end.state, tuple(end.needs), reason=end.reason)
        for end in ends
    ]
    for number, end in enumerate(ends):
        if end.run is not None and end.status is not None:
            row = listing.summarize(end.run, end.status)
            jobs[number] = jobs[number]._replace(
                run=end.run.id,
                provider=end.run.provider,
                began_s=row.began,
                ran_s=row.ran_s,
                ended_s=end.run.record.read_memory().ended_at,
                cost=spending.short(row.cost),
                reads=chains.list_inputs(end.run),
            )
    return chain_page.make_chain_page(chain.name, str(chain.record.path), jobs, node_table.when)


def logs_of_chain(
    chain: ChainRun, *, tail: int | None, grep: str | None, since: timedelta | None
) -> int:
    """Print the logs of all jobs so far, in the order of the jobs."""
    width = max(map(len, chain.jobs))
    for job, run in chain.jobs.items():
        for line in run.logs(tail=tail, grep=grep, since=since) if run is not None else ():
            output.out(f"{job:{width}} | {strip_sequences(line.text)}")
    return OK


def cancel_chain(chain: ChainRun, *, as_json: bool) -> int:
    """Cancel a chain, and print how its jobs are."""
    ends = chain.cancel(on_event=ProgressPrinter(quiet=as_json))
    if as_json:
        _print_json(chain.name, chain.record.path, chains.read_want(chain), ends)
        return OK
    for end in ends:
        output.tell(escape_control(f"{end.job} {end.state}"))
    return OK


def destroy_chain(chain: ChainRun, *, as_json: bool) -> int:
    """Destroy all runs of a chain."""
    chain.destroy(on_event=ProgressPrinter(quiet=as_json))
    if as_json:
        _print_json(chain.name, chain.record.path, "destroy", chain.status())
    else:
        output.tell(f"{chain.name} destroyed")
    return OK
