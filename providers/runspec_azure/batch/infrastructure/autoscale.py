"""How many machines a pool has: its autoscale formula, with which it is made awake, or woken when it sleeps.

https://learn.microsoft.com/azure/batch/batch-automatic-scaling
"""

from __future__ import annotations

from collections.abc import Iterator

from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import batch
from runspec_jobs.provider import Capacity, Facts, Scope, Spec, Step, nodes_each, tasks

INTERVAL = "PT5M"  # the shortest there is
MOST_SAMPLES = "TimeInterval_Minute * 5"
SPOT = "$TargetLowPriorityNodes"  # spot, by its old name, in accounts of user subscription mode
DEDICATED = "$TargetDedicatedNodes"
PENDING, ACTIVE, RUNNING = "$PendingTasks", "$ActiveTasks", "$RunningTasks"
HERE = ("$CurrentDedicatedNodes", "$CurrentLowPriorityNodes")
CLOCK = "$clock"  # where the client puts the moment until which a pool is woken


# Of machines that talk to each other: https://learn.microsoft.com/azure/batch/batch-quota-limit#pool-size-limits
TOGETHER = {"batch-service": 100, "user-subscription": 80}


def allocation(facts: Facts) -> str | None:
    """Return the pool allocation mode: what the account says of itself beats what the profile says of it."""
    found: str | None = facts.survey.get("pool_allocation") or facts.options.pool_allocation
    return found


def together(facts: Facts) -> int:
    """Return the most machines of a pool in which they talk to each other."""
    return TOGETHER[allocation(facts) or "batch-service"]


def most(spec: Spec, facts: Facts) -> int:
    """Return the most machines that the pool of *spec* has: none that no task could use.

    What max_parallel holds back counts as pending, too: "$ActiveTasks [...] includes all tasks that
    are in the active state and whose dependencies have been satisfied."
    https://learn.microsoft.com/azure/batch/batch-automatic-scaling#read-write-service-defined-variables
    """
    options: BatchOptions = facts.options
    nodes, found = nodes_each(spec), options.max_nodes
    if spec.max_parallel:
        found = min(found, spec.max_parallel * spec.cluster.nodes.max)
    if spec.cluster.nodes.max > 1:
        found = min(found, together(facts))
    return max(nodes, found - found % nodes)


def formula(spec: Spec, facts: Facts, woken: int | None = None) -> str:
    """Return the autoscale formula: a machine for each node of each task, and none when none are left.

    Machines leave when their task has ended. *woken*: how many nodes are about to be submitted, which
    no sample has yet. Without it, a pool that has no samples asks for its first task's machines.
    """
    lines = (
        f"most = {most(spec, facts)}",
        f"seen = {PENDING}.GetSamplePercent({MOST_SAMPLES})",
        *_pending(nodes_each(spec), woken),
        *_targets(spec, facts.options),
        "$NodeDeallocationOption = taskcompletion",
    )
    return "".join(f"{line};\n" for line in lines)


def _pending(nodes: int, woken: int | None) -> Iterator[str]:
    """Yield what there is to do by its samples, in whole tasks, and what is woken for beside it."""
    yield f"last = seen < 70 ? 0 : {_last(nodes)}"
    yield f"sampled = seen < 70 ? {nodes} : max(last, {PENDING}.GetSample({MOST_SAMPLES}))"
    if woken is None:
        yield "fresh = 0"
        yield "nodes = sampled"
    else:
        yield f'fresh = time() < time("{CLOCK}")'
        yield f"nodes = fresh ? max(sampled, last + {woken}, {DEDICATED} + {SPOT}) : sampled"
    if nodes == 1:
        yield "wanted = min(most, nodes)"
    else:
        up = 0.5 - 0.5 / nodes  # there is no function that rounds up
        yield f"wanted = min(most, {nodes} * round(nodes / {nodes} + {up:.4f}))"


def _last(nodes: int) -> str:
    """Return the nodes of all tasks that wait or run, by the last sample.

    "For a multi-instance task, $ActiveTasks includes the number of instances set on the task."
    Of $RunningTasks the page has "the number of tasks in a running state", and nothing of instances:
    https://learn.microsoft.com/azure/batch/batch-automatic-scaling#read-only-service-defined-variables
    See docs/unverified.md, azure-32.
    So each that runs is taken for all its nodes, and all of them together for no more machines than
    there are: should the service count instances, what runs alone does not make a pool grow.
    """
    if nodes == 1:
        return f"max({PENDING}.GetSample(1))"
    running = f"{nodes} * max({RUNNING}.GetSample(1))"
    here = " + ".join(f"max({name}.GetSample(1))" for name in HERE)
    return f"max({ACTIVE}.GetSample(1)) + min({running}, {here})"


def _targets(spec: Spec, options: BatchOptions) -> Iterator[str]:
    capacity = spec.cluster.capacity
    if capacity is Capacity.ON_DEMAND:
        yield from (f"{DEDICATED} = wanted", f"{SPOT} = 0")
        return
    if capacity is Capacity.SPOT:
        yield from (f"{SPOT} = wanted", f"{DEDICATED} = 0")
        return
    # What was taken away is made up for at once; what was asked for and has not come when tasks have
    # waited so long, is asked for as on-demand, until there is nothing to do. $CurrentLowPriorityNodes
    # has what was taken away in it.
    wait = f"TimeInterval_Minute * {options.spot_wait // 60}"
    yield f"lost = seen < 70 ? 0 : max($PreemptedNodeCount.GetSample({MOST_SAMPLES}))"
    yield "here = seen < 70 ? 0 : max($CurrentLowPriorityNodes.GetSample(1)) - lost"
    yield f"known = {PENDING}.GetSamplePercent({wait})"
    yield f"waited = known < 70 ? 0 : min({PENDING}.GetSample({wait}))"
    yield f"short = fresh || waited < 1 ? 0 : max(0, {SPOT} - max(0, here))"
    yield f"{DEDICATED} = min(wanted, max(lost, {DEDICATED} + short))"
    yield f"{SPOT} = max(0, wanted - {DEDICATED})"


def coming(spec: Spec, facts: Facts) -> int:
    """Return how many nodes a run of *spec* submits, as far as they can run at once."""
    return min(most(spec, facts), len(tasks(spec)) * spec.cluster.nodes.max)


def awake(spec: Spec, facts: Facts) -> dict[str, str]:
    """Return the formula that a pool is made with: machines come for all of the run that makes it.

    "When you create a pool with autoscaling enabled" it is evaluated at once; then the pool is resized,
    and for minutes nobody can give it another. No run is in it: runs share this request.
    """
    return {CLOCK: formula(spec, facts, coming(spec, facts))}


def wake(spec: Spec, run: str, facts: Facts, pool: str) -> Iterator[Step]:
    """Yield the step that has a pool of ours look for machines now, and not at its next evaluation.

    One that this very command has made is awake, and is not asked again. A new evaluation begins when the
    interval is given anew, and samples lag behind: so the formula says what will be submitted next, and
    no sample has that twice. It says whose it is, too: by that a call that may have been made is known.
    https://learn.microsoft.com/rest/api/batchservice/pools/enable-pool-auto-scale
    """
    options: BatchOptions = facts.options
    if options.pool:
        return
    count = coming(spec, facts)
    text = f"// woken by {run}\n{formula(spec, facts, count)}"
    body = {"autoScaleFormula": {CLOCK: text}, "autoScaleEvaluationInterval": INTERVAL}
    do = batch("Pool_EnableAutoScale", {"poolId": pool}, body)
    yield Step("wake", f"wake the pool for {count} of its nodes", Scope.RUN, do)
