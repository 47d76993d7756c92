"""The autoscale formula of a pool, and the step that has an existing pool scale up for a run.

https://learn.microsoft.com/azure/batch/batch-automatic-scaling
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from runspec_azure.batch.decision import Decision
from runspec_azure.naming import batch
from runspec_jobs.provider import Capacity, Scope, Step

INTERVAL = "PT5M"  # the shortest interval that is allowed
MOST_SAMPLES = "TimeInterval_Minute * 5"
SPOT = (
    "$TargetLowPriorityNodes"  # the old name means spot machines in every account: Azure/Batch#196
)
DEDICATED = "$TargetDedicatedNodes"
PENDING, ACTIVE, RUNNING = "$PendingTasks", "$ActiveTasks", "$RunningTasks"
HERE = ("$CurrentDedicatedNodes", "$CurrentLowPriorityNodes")
# The client replaces it by the time until which the formula counts a run as submitted.
CLOCK = "$clock"


def formula(decision: Decision, woken: int | None = None) -> str:
    """Return the autoscale formula: one machine for each node of each task that waits or runs, or for some of them.

    A machine is released when its task has ended. *woken* is the number of nodes that are about to be submitted,
    which no sample contains yet. Without it, a pool without samples requests the machines of one task.
    """
    lines = (
        f"most = {decision.most_nodes}",
        f"seen = {PENDING}.GetSamplePercent({MOST_SAMPLES})",
        *_pending(decision, woken),
        *_targets(decision),
        "$NodeDeallocationOption = taskcompletion",
    )
    return "".join(f"{line};\n" for line in lines)


def _pending(decision: Decision, woken: int | None) -> Iterator[str]:
    """Yield the lines that compute the machines `wanted` from samples and *woken*: for whole tasks, and `most`."""
    nodes, slots = decision.nodes, decision.slots
    here = f"{DEDICATED} + {SPOT}" if slots == 1 else f"{slots} * ({DEDICATED} + {SPOT})"
    yield f"last = seen < 70 ? 0 : {_last(nodes)}"
    yield f"sampled = seen < 70 ? {nodes} : max(last, {PENDING}.GetSample({MOST_SAMPLES}))"
    if woken is None:
        yield "fresh = 0"
        yield "nodes = sampled"
    else:
        yield f'fresh = time() < time("{CLOCK}")'
        yield f"nodes = fresh ? max(sampled, last + {woken}, {here}) : sampled"
    if nodes == slots == 1:
        yield "wanted = min(most, nodes)"
        return
    # The guide documents no function that rounds, so the formula counts the tasks of several nodes, or the machines
    # of several tasks: a comparison is 0 or 1. Tasks of several nodes share no machine.
    step = max(nodes, slots)
    limit = decision.most_nodes * slots
    begun = " + ".join(f"(nodes > {count})" for count in range(0, limit, step))
    yield f"wanted = min(most, {nodes} * ({begun}))"


def _last(nodes: int) -> str:
    """Return the expression for the nodes of all tasks that wait or run, from the last sample.

    "For a multi-instance task, $ActiveTasks includes the number of instances set on the task."
    $RunningTasks is "the number of tasks in a running state"; the page does not mention instances:
    https://learn.microsoft.com/azure/batch/batch-automatic-scaling#read-only-service-defined-variables
    See docs/unverified.md, azure-32.
    So each running task counts with all its nodes, and all running tasks together as at most the machines that
    exist: if the service counts instances, running tasks alone do not make a pool grow.
    """
    if nodes == 1:
        return f"max({PENDING}.GetSample(1))"
    running = f"{nodes} * max({RUNNING}.GetSample(1))"
    here = " + ".join(f"max({name}.GetSample(1))" for name in HERE)
    return f"max({ACTIVE}.GetSample(1)) + min({running}, {here})"


def _targets(decision: Decision) -> Iterator[str]:
    if decision.capacity is Capacity.ON_DEMAND:
        yield from (f"{DEDICATED} = wanted", f"{SPOT} = 0")
        return
    if decision.capacity is Capacity.SPOT:
        yield from (f"{SPOT} = wanted", f"{DEDICATED} = 0")
        return
    # Reclaimed machines are replaced at once by on-demand machines. Spot machines that were requested and have
    # not started when tasks have waited for spot_wait are requested as on-demand, until no tasks are left.
    # $CurrentLowPriorityNodes includes reclaimed machines.
    wait = f"TimeInterval_Minute * {decision.options.spot_wait // 60}"
    yield f"lost = seen < 70 ? 0 : max($PreemptedNodeCount.GetSample({MOST_SAMPLES}))"
    yield "here = seen < 70 ? 0 : max($CurrentLowPriorityNodes.GetSample(1)) - lost"
    yield f"known = {PENDING}.GetSamplePercent({wait})"
    yield f"waited = known < 70 ? 0 : min({PENDING}.GetSample({wait}))"
    yield f"short = fresh || waited < 1 ? 0 : max(0, {SPOT} - max(0, here))"
    yield f"{DEDICATED} = min(wanted, max(lost, {DEDICATED} + short))"
    yield f"{SPOT} = max(0, wanted - {DEDICATED})"


def awake(decision: Decision) -> dict[str, str]:
    """Return the formula of a new pool, which requests machines for all nodes of the run that makes it.

    "When you create a pool with autoscaling enabled" it is evaluated at once; then the pool is being resized, and
    for minutes it accepts no other formula. The formula does not name a run, because runs share this request.
    """
    return {CLOCK: formula(decision, decision.nodes_at_once)}


def wake(decision: Decision, run: str, pool: str) -> Iterator[Step]:
    """Yield the step that has a pool of runspec scale up now, and not at its next evaluation.

    The client skips it for a pool that the same command has made. Setting the interval again starts a new
    evaluation, and samples lag behind: so the formula contains the nodes that are submitted next, until samples
    include them. Its comment names the run, by which a request with an unknown outcome is found.
    https://learn.microsoft.com/rest/api/batchservice/pools/enable-pool-auto-scale
    """
    if decision.options.pool:
        return
    count = decision.nodes_at_once
    text = f"// woken by {run}\n{formula(decision, count)}"
    body = {"autoScaleFormula": {CLOCK: text}, "autoScaleEvaluationInterval": INTERVAL}
    do = batch("Pool_EnableAutoScale", {"poolId": pool}, body)
    yield Step("wake", f"scale the pool up for {count} node{'s' * (count > 1)}", Scope.RUN, do)


def with_time(value: Any, until: datetime) -> Any:
    """Return *value* with the time until which a run counts as submitted, for every `{"$clock": ...}`."""
    if isinstance(value, list):
        return [with_time(inner, until) for inner in value]
    if not isinstance(value, Mapping):
        return value
    if value.keys() != {CLOCK}:
        return {key: with_time(inner, until) for key, inner in value.items()}
    return value[CLOCK].replace(CLOCK, f"{until:%Y-%m-%dT%H:%M:%SZ}")
