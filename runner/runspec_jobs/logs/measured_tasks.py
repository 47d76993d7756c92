"""The tasks of a run with what its metric has measured."""

from __future__ import annotations

from collections.abc import Mapping

from runspec_jobs.logs import measure
from runspec_jobs.provider import Client, NodeStatus, Spec, State, Status
from runspec_jobs.report.metric_extraction import Measured
from runspec_jobs.report.ranking import Task
from runspec_jobs.spec.metric import Metric
from runspec_jobs.spec.placeholders import tasks
from runspec_jobs.state.run_record import Record

# The node of a task whose state comes first here is shown for the task.
SAYS = (State.FAILED, State.CANCELLED, State.RUNNING, State.WAITING, State.SUCCEEDED)


def measure_tasks(
    record: Record, client: Client, spec: Spec, metric: Metric, status: Status
) -> list[Task]:
    """Return all tasks of a run, each with its state and the values of *metric*, from its log or its saved files."""
    values = tasks(spec)
    if metric.file is not None:
        saved = measure.read_saved(client, record.run, metric)
        nothing = Measured(None, f"{metric.file} was not saved")
        measured = [saved.get(number, nothing) for number in range(len(values))]
    else:
        watch = measure.collect_printed(client, record.run, metric)
        measured = [watch.get_measured(number) for number in range(len(values))]
    stand = choose_nodes(status)
    return [
        _make_task(number, parameters, measured[number], stand.get(number), status)
        for number, parameters in enumerate(values)
    ]


def list_tasks(spec: Spec, status: Status) -> list[Task]:
    """Return all tasks of a run without a metric, each with its state."""
    stand = choose_nodes(status)
    return [
        _make_task(
            number, values, Measured(None, "the spec has no metric"), stand.get(number), status
        )
        for number, values in enumerate(tasks(spec))
    ]


def _make_task(
    number: int,
    values: Mapping[str, str],
    measured: Measured,
    node: NodeStatus | None,
    status: Status,
) -> Task:
    if node is None and status.nodes:
        never = measured if measured.value is not None else Measured(None, "it has not started")
        return Task(number, values, "not-started", never)
    if node is None:
        return Task(number, values, str(status.state), measured)
    # Why the task ended comes first: it explains why no number was printed.
    if measured.value is None or node.state in (State.FAILED, State.CANCELLED):
        reason = node.reason or (node.attempts[-1].reason if node.attempts else "")
        measured = measured._replace(why="; ".join(text for text in (reason, measured.why) if text))
    return Task(number, values, str(node.state), measured)


def choose_nodes(status: Status) -> dict[int, NodeStatus]:
    """Return for each task the node whose state comes first in SAYS."""
    by_task: dict[int, NodeStatus] = {}
    for node in status.nodes:
        before = by_task.get(node.task)
        if before is None or SAYS.index(node.state) < SAYS.index(before.state):
            by_task[node.task] = node
    return by_task
