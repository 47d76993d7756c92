"""Pools that scale by a formula: samples are taken, the formula is evaluated, the pool is resized."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from runspec_emulators.azure_batch.autoscale import formula
from runspec_emulators.azure_batch.autoscale.formula import Series
from runspec_emulators.azure_batch.autoscale.grammar import FormulaError
from runspec_emulators.azure_batch.errors import ServiceError, wrong
from runspec_emulators.azure_batch.model import Pool
from runspec_emulators.azure_batch.nodes import resizing
from runspec_emulators.azure_batch.resource import now, seconds
from runspec_emulators.azure_batch.tasks import scheduling
from runspec_emulators.azure_batch.world import World

MOST_SAMPLES = 2000
LEAST_S, LONGEST_S = 300, 168 * 3600  # "minimum [...] 5 minutes and 168 hours respectively"


def check_settings(body: Mapping[str, Any]) -> None:
    """Raise ServiceError for a formula or an interval that cannot be."""
    if not body.get("enableAutoScale"):
        return
    if "autoScaleFormula" not in body:
        raise wrong("autoScaleFormula", None, "it is required if enableAutoScale is set to true")
    interval = seconds(body.get("autoScaleEvaluationInterval"))
    if interval is not None and not LEAST_S <= interval <= LONGEST_S:
        raise wrong(
            "autoScaleEvaluationInterval",
            body["autoScaleEvaluationInterval"],
            "the value is between 5 minutes and 168 hours",
        )
    try:
        formula.check(body["autoScaleFormula"])
    except FormulaError as exc:
        raise syntax(exc) from exc


def syntax(exc: FormulaError) -> ServiceError:
    message = "The specified auto-scaling formula has a syntax error."
    return ServiceError("AutoScalingFormulaSyntaxError", message, Reason=str(exc))


def begin(world: World, pool: Pool) -> None:
    """Evaluate the formula now and at each interval. Samples are taken all the while, by their own clock.

    "enabling automatic scaling [...] the first evaluation is done at once": "When you create a pool
    with autoscaling enabled, [...] evaluates the formula immediately".
    """
    pool.turn += 1
    pool.clock += 1
    if not pool.samples:
        sample(world, pool)
    evaluate(world, pool, pool.clock)


def here(world: World, pool: Pool, clock: int) -> bool:
    """Return whether a timer is still wanted: the pool exists, scales, and has no newer timer."""
    alive = world.pools.get(pool.id.lower()) is pool and pool.state != "deleting"
    return alive and clock == pool.clock and bool(pool.body.get("enableAutoScale"))


def sample(world: World, pool: Pool) -> None:
    if world.pools.get(pool.id.lower()) is pool and pool.state != "deleting":
        pool.samples.append((time.monotonic(), measured(world, pool)))
        del pool.samples[:-MOST_SAMPLES]
        world.timers.after(world.settings.sample_s, partial(sample, world, pool))


def measured(world: World, pool: Pool) -> dict[str, float]:
    """Return the values of the service-defined variables now.

    "$ActiveTasks: the number of tasks that are ready to execute but aren't yet executing. [...] For
    a multi-instance task, $ActiveTasks includes the number of instances set on the task."
    "$RunningTasks: the number of tasks in a running state": nothing is said of instances there.
    """
    samples = dict.fromkeys(formula.SAMPLED, 0.0)
    for job in world.jobs.values():
        if job.pool_id.lower() != pool.id.lower():
            continue
        for task in job.tasks.values():
            if task.attempt:
                samples["$RunningTasks"] += 1
            elif task.state == "active" and job.state == "active" and scheduling.ready(task):
                samples["$ActiveTasks"] += task.instances
            elif task.state == "completed":
                kind = "$SucceededTasks" if task.info.get("result") == "success" else "$FailedTasks"
                samples[kind] += 1
    nodes = list(pool.nodes.values())
    samples["$PendingTasks"] = samples["$ActiveTasks"] + samples["$RunningTasks"]
    samples["$CurrentDedicatedNodes"] = float(pool.count(dedicated=True))
    samples["$CurrentLowPriorityNodes"] = float(pool.count(dedicated=False))
    samples["$PreemptedNodeCount"] = float(sum(n.state == "preempted" for n in nodes))
    samples["$UsableNodeCount"] = float(sum(n.state in ("idle", "running") for n in nodes))
    samples["$SampleNodeCount"] = float(len(nodes))
    samples["$TaskSlotsPerNode"] = float(pool.slots)
    return samples


def values(world: World, pool: Pool) -> dict[str, Any]:
    """Return the variables of a formula: series of samples, and the present targets."""
    at, second = time.monotonic(), world.settings.second_s
    period = world.settings.sample_s / second
    series = {
        name: Series([((at - t) / second, v[name]) for t, v in pool.samples], period)
        for name in formula.SAMPLED
    }
    return {
        **series,
        "$TargetDedicatedNodes": float(pool.targets["targetDedicatedNodes"]),
        "$TargetLowPriorityNodes": float(pool.targets["targetLowPriorityNodes"]),
        "$NodeDeallocationOption": "requeue",
    }


def evaluated(world: World, pool: Pool, text: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Evaluate a formula: give an AutoScaleRun, and what the formula assigned, if it could be."""
    try:
        given = formula.evaluated(text, values(world, pool))
    except FormulaError as exc:
        code = (
            "InsufficientSampleData"
            if "Insufficient" in str(exc)
            else "AutoScalingFormulaEvaluationError"
        )
        error = {"code": code, "message": str(exc), "values": []}
        return {"timestamp": now(), "results": "", "error": error}, None
    shown = {
        **targets(pool, given),
        **{k: v for k, v in given.items() if not k.startswith("$Target")},
    }
    shown.setdefault("$NodeDeallocationOption", "requeue")
    results = ";".join(f"{k}={said(v)}" for k, v in sorted(shown.items()))
    return {"timestamp": now(), "results": results}, given


def targets(pool: Pool, given: Mapping[str, Any]) -> dict[str, int]:
    """Return whole numbers of nodes: "If the calculated number is not whole, [...] rounded"; here up."""
    counts = {}
    for name in ("TargetDedicatedNodes", "TargetLowPriorityNodes"):
        current = pool.targets["t" + name[1:]]
        counts[f"${name}"] = max(0, -int(-given.get(f"${name}", float(current)) // 1))
    return counts


def said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def evaluate(world: World, pool: Pool, clock: int) -> None:
    """Evaluate the pool's formula and resize it as that says. If it fails, the pool stays as it is."""
    if not here(world, pool, clock):
        return
    world.timers.after(world.settings.autoscale_s, partial(evaluate, world, pool, clock))
    pool.run, given = evaluated(world, pool, pool.body["autoScaleFormula"])
    if given is None:
        return
    counts = targets(pool, given)
    wanted = {"t" + name[2:]: number for name, number in counts.items()}
    pool.option = given.get("$NodeDeallocationOption", "requeue")
    short = any(pool.count(kind) != wanted[name] for kind, name in resizing.KINDS.items())
    if wanted != pool.targets or (short and pool.allocation == "steady"):
        pool.targets = wanted
        resizing.resize(world, pool)
