"""The line at the end of a run that was followed: how it ended, what came of it, and the command to get it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runspec_jobs.api.lifecycle import Run, Status, explain_doubt, get
from runspec_jobs.cli import spending
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.diagnostics.terminal_text import clip
from runspec_jobs.errors import RunspecError
from runspec_jobs.machines import spent
from runspec_jobs.report.numbers import format_number, format_seconds, shorten_text

READ = 50  # the most nodes of all tasks whose outputs are counted, because each needs a request
WIDTH = 200  # the most columns of a line of a log
VALUES = 3  # the most parameters of a task that are named


def line(run: Run, status: Status, *, kept: bool = True) -> str:
    """Return the line about a run that has ended; without *kept*, its outputs are about to be deleted."""
    parts = [*_result(run, status)]
    outputs = _outputs(run) if kept else ""
    parts += [outputs] if outputs else []
    cost = spending.of_run(run, status)
    parts += [spending.amount(spent.sum_spent(cost))] if cost is not None else []
    text = ", ".join(parts) + (f": runspec fetch {_name(run)}" if outputs else "")
    head = f"{run.id} {status.state}"
    if status.reason:
        return f"{head}: {status.reason}" + (f" ({text})" if text else "")
    return f"{head}: {text}" if text else head


def log_end(run: Run, status: Status, *, reads: bool = True) -> Iterator[str]:
    """Yield the last lines of the log of the node that made the run fail, and how to see all of it.

    Without *reads*, no service is asked.
    """
    try:
        end = run.log_end(status, reads=reads)
    except RunspecError:  # the run is over: its result is printed even if its log is not there
        return
    if end is None:
        return
    nodes, tasks = run.shape
    options = [f"--task {end.task}"] * (tasks > 1) + [f"--node {end.rank}"] * (nodes > 1)
    places = [f"task {end.task}"] * (tasks > 1) + [f"node {end.rank}"] * (nodes > 1)
    whose = f"the log of {', '.join(places)}" if places else "the log"
    logs = " ".join(["runspec logs", _name(run), *options])
    if end.lines is None:
        yield f"the end of {whose}: {logs} --tail 20"
    elif not end.lines:
        yield f"{whose} is empty"
    else:
        yield f"{whose} ends with the lines below, and {logs} shows all"
        yield from (f"  {clip(text, WIDTH)}" for text in end.lines)


def _result(run: Run, status: Status) -> Iterator[str]:
    """Yield how long the run took, and the best value of its metric."""
    ran_s = run.measure_seconds(status)
    if ran_s is not None:
        yield format_seconds(ran_s)
    if best := run.find_best():
        value = f"{best.metric} {format_number(best.value)}"
        named = f" ({_values(best.values)})" if best.values else ""
        yield f"best task {best.task}{named} with {value}" if best.values else value


def _values(values: Mapping[str, str]) -> str:
    """Return the parameters of a task as text.

    >>> _values({"lr": "0.00015642140528861185", "seed": "1"})
    'lr 0.0001564, seed 1'
    """
    shown = [escape_control(f"{name} {shorten_text(value)}") for name, value in values.items()]
    return ", ".join(shown[:VALUES]) + (", ..." if len(shown) > VALUES else "")


def _outputs(run: Run) -> str:
    """Return how many outputs of the run have files; nothing if that is none, or is not known."""
    try:
        wanted = len(run.spec.outputs)
        nodes, tasks = run.shape
        if not wanted or nodes * tasks > READ:
            return "outputs" if wanted else ""
        saved = len({file.output for file in run.outputs()})
    except RunspecError:
        return ""
    return f"{saved} output{'s' * (saved != 1)}" if saved else ""


def _name(run: Run) -> str:
    """Return the name of the spec if that clearly means this run in a command, and else the run's id."""
    try:
        meant = get(run.name)
        return run.name if meant.id == run.id and not explain_doubt(run.name, meant) else run.id
    except RunspecError:
        return run.id
