"""The formula of a pool, evaluated as the service's guide says, in minutes that nobody has to wait for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from runspec_azure.batch import PROVIDER
from runspec_azure.batch.check import rules
from runspec_azure.batch.infrastructure import autoscale
from runspec_emulators.azure_batch.autoscale import formula
from runspec_emulators.azure_batch.autoscale.formula import Series
from runspec_jobs.provider import Facts, Spec, Step
from tests.support.azure.specs import decision, options, spec

MINUTES = 20
THEN_OTHERS = {"capacity": "spot-then-on-demand"}
LONG_AGO, LONG_AFTER = "2020-01-01T00:00:00Z", "2120-01-01T00:00:00Z"


def evaluated(
    wanted: Spec,
    pending: Sequence[float] | float = 0,
    *,
    text: str | None = None,
    spot: tuple[float, float] = (0, 0),
    dedicated: float = 0,
    preempted: float = 0,
    gangs: tuple[float, float, float] | None = None,
    **profile: Any,
) -> tuple[int, int]:
    """Give how many on-demand and spot machines are asked for.

    *pending*: how many nodes of tasks waited or ran in each minute, the last one last, or in all.
    *spot*: how many are asked for and how many have come; *dedicated*: how many are asked for.
    *gangs*: of tasks of many nodes, the nodes of those that wait, what is counted for those that run, and
    the machines there are. Without *gangs*, all pending nodes are of tasks that wait.
    """
    each = [pending] * MINUTES if isinstance(pending, int | float) else list(pending)
    ago = [60.0 * (len(each) - 1 - n) + half for n in range(len(each)) for half in (31.0, 1.0)]
    series = {name: Series([], 30.0) for name in formula.SAMPLED}

    def constant(value: float) -> Series:
        return Series([(a, value) for a in ago], 30.0)

    series["$PendingTasks"] = Series([(a, float(each[n // 2])) for n, a in enumerate(ago)], 30.0)
    waiting, running, here = gangs or (each[-1] if each else 0, 0, 0)
    series["$ActiveTasks"], series["$RunningTasks"] = constant(waiting), constant(running)
    series["$CurrentDedicatedNodes"] = constant(here)
    series["$CurrentLowPriorityNodes"] = constant(spot[1])
    series["$PreemptedNodeCount"] = constant(preempted)
    targets = {"$TargetDedicatedNodes": float(dedicated), "$TargetLowPriorityNodes": float(spot[0])}
    given = formula.evaluated(
        text or autoscale.formula(decision(wanted, **profile)), {**series, **targets}
    )
    assert given["$NodeDeallocationOption"] == "taskcompletion"
    found = given["$TargetDedicatedNodes"], given["$TargetLowPriorityNodes"]
    return math.ceil(found[0]), math.ceil(found[1])


def woken(wanted: Spec, until: str, **profile: Any) -> str:
    (step,) = wakes(wanted, **profile)
    text: str = step.do.params["body"]["autoScaleFormula"][autoscale.CLOCK]
    return text.replace(autoscale.CLOCK, until)


def made(wanted: Spec, until: str) -> str:
    """Give the formula that a pool is made with."""
    steps = PROVIDER.plan(wanted, "n-abc123", Facts(options(), {}))
    (step,) = [s for s in steps if s.do.operation == "Pool_Add"]
    text: str = step.do.params["body"]["autoScaleFormula"][autoscale.CLOCK]
    return text.replace(autoscale.CLOCK, until)


def wakes(wanted: Spec, **profile: Any) -> list[Step]:
    steps = PROVIDER.plan(wanted, "n-abc123", Facts(options(**profile), {}))
    return [s for s in steps if s.do.operation == "Pool_EnableAutoScale"]


@pytest.mark.parametrize("pending,nodes", [(0, 0), (1, 1), (7, 7), (90, 16)])
def test_each_task_has_a_machine_and_there_are_no_more_than_the_profile_says(
    pending: int, nodes: int
) -> None:
    assert evaluated(spec(), pending) == (nodes, 0)
    assert evaluated(spec(cluster={"capacity": "spot"}), pending) == (0, nodes)


def test_a_pool_without_tasks_goes_to_nothing_when_five_minutes_are_over() -> None:
    assert evaluated(spec(), [3] * 16 + [0] * 4) == (3, 0)
    assert evaluated(spec(), [3] * 15 + [0] * 5) == (0, 0)


@pytest.mark.parametrize("pending,nodes", [(0, 0), (1, 4), (4, 4), (5, 8), (8, 8), (12, 12)])
def test_a_task_of_many_nodes_has_as_many_machines(pending: int, nodes: int) -> None:
    """One that waits counts for all its nodes; of one that runs nobody says so."""
    assert evaluated(spec(cluster={"nodes": 4}), pending) == (nodes, 0)


@pytest.mark.parametrize("nodes", [2, 3, 7, 16, 26])
def test_pending_nodes_are_rounded_up_to_whole_tasks(nodes: int) -> None:
    for pending in range(1, 3 * nodes):
        whole = math.ceil(pending / nodes) * nodes

        assert evaluated(spec(cluster={"nodes": nodes}), pending, max_nodes=999) == (whole, 0)


@pytest.mark.parametrize("slots", [2, 3, 16])
def test_machines_that_tasks_share_are_rounded_up(slots: int) -> None:
    sweep = spec(sweep={"n": "0..99"})
    for pending in (0, 1, slots - 1, slots, slots + 1, 2 * slots, 4 * slots, 4 * slots + 1, 99):
        machines = min(4, math.ceil(pending / slots))

        assert evaluated(sweep, pending, tasks_per_node=slots, max_nodes=4) == (machines, 0)


def test_the_longest_formula_of_shared_machines_is_accepted() -> None:
    """ "An autoscale formula cannot exceed 8 KB", with the comment that names the run."""
    made = decision(
        spec(sweep={"n": "0..9999"}, cluster=THEN_OTHERS),
        tasks_per_node=256,
        max_nodes=rules.MOST_SHARED,
        spot_wait="1h",
    )
    (wake,) = autoscale.wake(made, "n" * 63, "pool")
    text = autoscale.with_time(wake.do.params, datetime.now(UTC))["body"]["autoScaleFormula"]

    assert len(text) < 8_000


def test_tasks_that_are_submitted_wake_the_machines_that_they_share() -> None:
    sweep = spec(sweep={"n": "1..5"})
    text = woken(sweep, LONG_AFTER, tasks_per_node=2)

    assert evaluated(sweep, 0, text=text) == (3, 0)
    assert evaluated(sweep, 0, text=text, dedicated=4) == (4, 0)
    assert evaluated(sweep, 3, text=text) == (4, 0)


@pytest.mark.parametrize(
    ("mode", "nodes", "machines"),
    [("batch-service", 2, 100), ("user-subscription", 2, 80), ("batch-service", 3, 99)],
)
def test_there_are_no_more_machines_than_may_talk_to_each_other(
    mode: str, nodes: int, machines: int
) -> None:
    """A pool that is asked for more has none of them."""
    profile: dict[str, Any] = {"max_nodes": 300, "pool_allocation": mode}

    assert evaluated(spec(cluster={"nodes": nodes}), 250, **profile) == (machines, 0)
    assert evaluated(spec(), 250, **profile) == (250, 0)


@pytest.mark.parametrize(("nodes", "machines"), [(1, 2), (3, 6)])
def test_there_are_no_more_machines_than_tasks_may_run_at_once(nodes: int, machines: int) -> None:
    """Those that wait for that count as pending, too."""
    wanted = spec(sweep={"n": "1..50"}, max_parallel=2, cluster={"nodes": nodes})

    assert evaluated(wanted, 50 * nodes) == (machines, 0)


@pytest.mark.parametrize(
    ("running", "waiting", "machines"), [(1, 0, 4), (2, 4, 12), (3, 0, 12), (3, 5, 20), (4, 0, 16)]
)
def test_a_task_of_many_nodes_that_waits_has_machines_beside_those_that_run(
    running: int, waiting: int, machines: int
) -> None:
    """Whether one that runs is counted once, or by its instances: the service's pages do not say."""
    wanted, here = spec(cluster={"nodes": 4}), 4 * running

    for counted in (running, here):
        given = evaluated(wanted, counted + waiting, gangs=(waiting, counted, here), max_nodes=20)
        assert given == (machines, 0)


def test_running_gangs_do_not_make_a_pool_grow() -> None:
    """Should what runs be counted by instances, machines that nobody needs stay while it does, and no more come."""
    wanted = spec(cluster={"nodes": 4})

    assert evaluated(wanted, 1, gangs=(0, 1, 8)) == (4, 0)
    assert evaluated(wanted, 4, gangs=(0, 4, 8)) == (8, 0)


def test_tasks_that_run_and_wait_have_no_more_than_the_most() -> None:
    wanted = spec(cluster={"nodes": 4})

    assert evaluated(wanted, 44, gangs=(40, 4, 16), max_nodes=18) == (16, 0)
    text = woken(wanted, LONG_AFTER, max_nodes=18)
    assert evaluated(wanted, 4, text=text, gangs=(0, 4, 16)) == (16, 0)


def test_a_pool_is_woken_for_tasks_of_many_nodes_beside_those_that_run() -> None:
    wanted = spec(cluster={"nodes": 4}, sweep={"n": [1, 2]})
    text = woken(wanted, LONG_AFTER)

    assert evaluated(wanted, 2, text=text, gangs=(0, 2, 8)) == (16, 0)
    assert evaluated(wanted, 5, text=text, gangs=(4, 1, 4), max_nodes=16) == (16, 0)


def test_a_new_pool_has_machines_for_all_of_the_run_that_makes_it() -> None:
    """It is evaluated at once, is then resized for minutes, and takes no formula meanwhile."""
    wanted = spec(cluster={"nodes": 3}, sweep={"n": [1, 2, 3, 4]})

    assert evaluated(wanted, [], text=made(wanted, LONG_AFTER)) == (12, 0)
    assert evaluated(spec(), [], text=made(spec(), LONG_AFTER)) == (1, 0)
    many = spec(sweep={"n": "1..1000"})
    assert evaluated(many, [], text=made(many, LONG_AFTER)) == (16, 0)


def test_a_new_pool_scales_by_samples_after_its_first_evaluation() -> None:
    wanted = spec(sweep={"n": [1, 2, 3, 4]})
    text = made(wanted, LONG_AGO)

    assert evaluated(wanted, 2, text=text, dedicated=4) == (2, 0)
    assert evaluated(wanted, 0, text=text, dedicated=4) == (0, 0)


def test_pools_are_shared_by_runs_of_other_lengths() -> None:
    """A pool is named by the formula that holds when it is awake."""
    names = set()
    for sweep in ({"n": [1]}, {"n": "1..9"}):
        steps = PROVIDER.plan(spec(sweep=sweep), "n-abc123", Facts(options(), {}))
        names |= {s.do.params["body"]["id"] for s in steps if s.id == "pool"}

    assert len(names) == 1


def test_a_pool_without_samples_has_machines_for_a_task() -> None:
    assert evaluated(spec(cluster={"nodes": 3}), []) == (3, 0)


def test_a_pool_that_is_woken_has_machines_for_what_comes_beside_what_there_is() -> None:
    wanted = spec(sweep={"n": "1..5"})
    text = woken(wanted, LONG_AFTER)

    assert evaluated(wanted, 0, text=text) == (5, 0)
    assert evaluated(wanted, 2, text=text) == (7, 0)
    assert evaluated(wanted, 0, text=text, dedicated=9) == (9, 0)  # another was woken for just now
    assert evaluated(wanted, [], text=text) == (5, 0)
    assert evaluated(wanted, 15, text=text) == (16, 0)


def test_a_woken_pool_shrinks_like_any_other() -> None:
    wanted = spec(sweep={"n": "1..5"})
    text = woken(wanted, LONG_AGO)

    assert evaluated(wanted, 0, text=text, dedicated=5) == (0, 0)
    assert evaluated(wanted, 2, text=text, dedicated=5) == (2, 0)


def test_a_pool_is_woken_for_as_many_nodes_as_can_run_at_once() -> None:
    wanted = spec(sweep={"n": "1..50"}, max_parallel=2, cluster={"nodes": 3})

    assert evaluated(wanted, 0, text=woken(wanted, LONG_AFTER)) == (6, 0)
    (step,) = wakes(spec(sweep={"n": "1..50"}))
    assert "for 16 nodes" in step.title


def test_a_pool_of_the_profile_is_left_asleep() -> None:
    assert wakes(spec(), pool="mine") == []


def test_a_pool_is_woken_before_anything_is_submitted_that_it_is_woken_for() -> None:
    steps = [s.do.operation for s in PROVIDER.plan(spec(), "n-abc123", Facts(options(), {}))]

    order = ["Pool_Add", "Pool_EnableAutoScale", "Job_Add", "Task_AddCollection", "Job_Patch"]
    assert [name for name in steps if name in order] == order


def test_spot_that_was_taken_away_is_made_up_for() -> None:
    wanted = spec(cluster=THEN_OTHERS)

    assert evaluated(wanted, 4, spot=(4, 4), preempted=1) == (1, 3)


def test_spot_that_does_not_come_is_made_up_for_when_tasks_have_waited() -> None:
    wanted = spec(cluster=THEN_OTHERS)

    assert evaluated(wanted, [0] * 12 + [4] * 8, spot=(4, 0)) == (0, 4)
    assert evaluated(wanted, [0] * 9 + [4] * 11, spot=(4, 0)) == (4, 0)
    assert evaluated(wanted, [0] * 9 + [4] * 11, spot=(4, 3)) == (1, 3)
    assert evaluated(wanted, [0] * 9 + [4] * 11, spot=(4, 0), spot_wait="20m") == (0, 4)


def test_on_demand_replacements_stay_while_tasks_are_left() -> None:
    wanted = spec(cluster=THEN_OTHERS)

    assert evaluated(wanted, 4, spot=(0, 0), dedicated=4) == (4, 0)
    assert evaluated(wanted, 2, spot=(0, 0), dedicated=4) == (2, 0)
    assert evaluated(wanted, 0, spot=(0, 0), dedicated=4) == (0, 0)


def test_spot_that_was_asked_for_just_now_is_not_short() -> None:
    """Others had waited already when the pool was woken."""
    wanted = spec(cluster=THEN_OTHERS)

    assert evaluated(wanted, 4, text=woken(wanted, LONG_AFTER), spot=(4, 0)) == (0, 5)


def test_spot_alone_is_never_made_up_for() -> None:
    assert evaluated(spec(cluster={"capacity": "spot"}), 4, spot=(4, 0)) == (0, 4)
