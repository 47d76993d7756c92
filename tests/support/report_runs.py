"""Runs of all kinds as a report sees them, for the tests of pages; the numbers come from fixed formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from runspec_jobs.machines.usage import NodeUsage, UsagePoint
from runspec_jobs.provider import Attempt, MembershipChange, NodeStatus, Source, State, Status
from runspec_jobs.provider.types import NodeRef
from runspec_jobs.report.metric_extraction import choose_number
from runspec_jobs.report.page.run_page import Changed, RunReport
from runspec_jobs.report.page.timeline import Clock
from runspec_jobs.report.ranking import Placed, Task, rank_tasks
from runspec_jobs.report.usage import Asked, Used
from runspec_jobs.spec.metric import Metric

GIB = 1 << 30
BORN_S = 1_764_000_000.0
LOSS = Metric(name="loss", goal="min", pattern="loss=(.*)")
SPEC = (
    "apiVersion: runspec/v1\nname: mnist\nprovider: local\nrun: python train.py --lr ${sweep.lr}\n"
)


def when(at: float) -> str:
    return f"2025-11-24 {int(at - BORN_S) // 3600:02}:{int(at - BORN_S) // 60 % 60:02}"


def report(status: Status, shape: tuple[int, int] = (1, 1), **more: Any) -> RunReport:
    """Return the report of a run that was prepared in 42 s, with the fields *more*."""
    clock = Clock(BORN_S, BORN_S + 42, BORN_S + 5000, BORN_S + 6000)
    titles = {"code": "upload the folder ./mnist", "job": "submit the job"}
    found = RunReport(
        "mnist-4k2x9a",
        "aws-batch",
        status,
        shape,
        clock,
        titles,
        {"code": 40.5, "job": 0.8},
        SPEC,
        "sha256:" + "5a" * 32,
        sources={"code": Source("sha256:" + "0f" * 32, 17, 123_456)},
    )
    return found._replace(**more)


def attempt(
    number: int, begin_s: float, end_s: float, code: int | None = 0, **more: Any
) -> Attempt:
    found = Attempt(number, code, "", False, BORN_S + begin_s, BORN_S + end_s)
    return found._replace(**more)


def node(task: int, rank: int, state: State, *attempts: Attempt, **more: Any) -> NodeStatus:
    code = attempts[-1].exit_code if attempts else None
    found = NodeStatus(task, rank, max(1, len(attempts)), state, "", code, attempts)
    return found._replace(**more)


def placed(tasks: int, count: int, number: Callable[[int, int], float]) -> tuple[Placed, ...]:
    """Return the ranking of *tasks*, of which each has *count* numbers, and a parameter with many digits."""
    found = []
    for n in range(tasks):
        measured = choose_number(LOSS, [number(n, i) for i in range(count)], "none")
        lr = repr(10 ** (-5 + 4 * ((n * 7) % tasks) / max(1, tasks - 1)) * 1.0000000000000002)
        values = {"lr": lr, "width": str(16 + n % 5 * 16), "optimizer": ("adam", "sgd")[n % 2]}
        found.append(Task(n, values, "succeeded", measured))
    return rank_tasks(LOSS, found)


def descent(task: int, step: int) -> float:
    """Return a loss that falls over many decades, and for every sixth task rises to 9e10."""
    rate = 0.02 + 0.004 * (task % 11)
    if task % 6 == 5:
        return 2.3 * math.exp(rate * step * (24.4 / (rate * 199)))
    return 2.3 * math.exp(-rate * step) * (1 + 0.2 * math.sin(step * 1.7 + task)) + 1e-4 * (
        1 + task
    )


def single() -> RunReport:
    status = Status(State.SUCCEEDED, "", 0, (node(0, 0, State.SUCCEEDED, attempt(1, 130, 4900)),))
    ranking = tuple(p._replace(task=p.task._replace(values={})) for p in placed(1, 400, descent))
    machines = {
        "catalogue": "prices of 2026-07-01 in eu-west-1",
        "chosen": [
            {"name": "g5.xlarge", "usd_hour": 1.123, "region": "eu-west-1"},
            {"name": "g6.xlarge", "usd_hour": None, "region": "eu-west-1"},
        ],
    }
    return report(status, metric=LOSS, ranking=ranking, machines=machines)


def sweep(tasks: int = 30, count: int = 200) -> RunReport:
    nodes = tuple(
        node(
            n,
            0,
            State.SUCCEEDED,
            attempt(1, 100 + n % 8 * 5 + n // 8 * 900, 950 + n // 8 * 900 + n % 7 * 9),
        )
        for n in range(tasks)
    )
    status = Status(State.SUCCEEDED, "", 0, nodes)
    return report(status, (1, tasks), metric=LOSS, ranking=placed(tasks, count, descent))


def diverged() -> RunReport:
    """Return a sweep of ten tasks with one number each, of which one is 9e10."""
    found = sweep(10, 1)
    values = [0.031, 0.12, 9.04e10, 0.3, 0.05, 1.7, 0.0312, 2.2, 14.0, 130.0]
    tasks = [p.task for p in sorted(found.ranking, key=lambda p: p.task.number)]
    told = [
        t._replace(measured=choose_number(LOSS, [v], ""))
        for t, v in zip(tasks, values, strict=True)
    ]
    return found._replace(ranking=rank_tasks(LOSS, told))


def mpi() -> RunReport:
    failed = tuple(
        node(0, rank, State.SUCCEEDED, attempt(1, 120 + rank, 800, 139 if rank == 2 else 143,
             reason="exited with code 139" if rank == 2 else "ended, because node 2 failed"),
             attempt(2, 815 + rank, 3600))
        for rank in range(4)
    )  # fmt: skip
    status = Status(State.SUCCEEDED, "", 0, failed)
    return report(status, (4, 1), metric=LOSS, ranking=placed(1, 60, descent))


def spot() -> RunReport:
    lost = "Host EC2 (instance i-0abc) terminated: spot machine reclaimed"
    own = (
        attempt(1, 200, 1500, None, reclaimed=True, reason=lost),
        attempt(2, 1900, 2100, None, reclaimed=True, reason=lost),
        attempt(3, 2600, 4800),
    )
    return report(Status(State.SUCCEEDED, "", 0, (node(0, 0, State.SUCCEEDED, *own),)))


def elastic() -> RunReport:
    def ref(n: int, why: str = "") -> NodeRef:
        return NodeRef(n, f"10.0.0.{n}", why)

    changes = (
        MembershipChange(0, 1, BORN_S + 150, 0, 2, "", None, None, 1),
        MembershipChange(0, 2, BORN_S + 700, 2, 4, "", 12.5, 0, 90, 1, came=(ref(2), ref(3))),
        MembershipChange(
            0, 3, BORN_S + 1900, 4, 3, "", 31.0, 14, 400, 2, lost=(ref(3, "its heartbeat stopped"),)
        ),
        MembershipChange(0, 4, BORN_S + 3000, 3, 4, "", 11.25, 0, 700, 3, came=(ref(3),)),
    )
    nodes = tuple(
        node(0, rank, State.SUCCEEDED, attempt(1, 150 + rank * 3, 4800)) for rank in range(4)
    )
    return report(Status(State.SUCCEEDED, "", 0, nodes), (4, 1), changed=Changed(changes))


def failed() -> RunReport:
    why = "exited with code 137; out of memory: the container was killed by the kernel"
    one = node(
        0,
        0,
        State.FAILED,
        attempt(1, 90, 400, 137, reason=why),
        attempt(2, 420, 700, 137, reason=why),
    )
    return report(Status(State.FAILED, why, 137, (one,)))


def running() -> RunReport:
    nodes = (
        node(0, 0, State.SUCCEEDED, attempt(1, 90, 1400)),
        node(1, 0, State.RUNNING, attempt(1, 95, 700, 1, reason="exited with code 1"), attempt=2),
        node(2, 0, State.WAITING, reason="waiting for a machine"),
    )
    found = report(Status(State.RUNNING, "", None, nodes), (1, 3), metric=LOSS)
    tasks = [p.task for p in placed(3, 50, descent)]
    found = found._replace(clock=found.clock._replace(ended_s=None, now_s=BORN_S + 2000))
    states = ("succeeded", "running", "waiting")
    none = choose_number(LOSS, [], "it printed nothing")
    told = [
        t._replace(state=states[t.number], measured=none if t.number == 2 else t.measured)
        for t in tasks
    ]
    return found._replace(ranking=rank_tasks(LOSS, told))


def node_usage(task: int, rank: int, gpus: int = 0, points: int = 200) -> NodeUsage:
    """Return what a node used in 2,000 s: at most 6.1 CPUs and 9 GiB, and of its GPUs the first half."""

    def point(n: int) -> UsagePoint:
        wave = 0.5 + 0.5 * math.sin(n / 9 + rank + task)
        busy = tuple(
            (90.0 * wave, int(38 * wave * GIB)) if g < max(1, gpus // 2) else (0.0, 0)
            for g in range(gpus)
        )
        cpus, memory = 6.1 * wave, int(min(9.0, 2 + 9 * n / points) * GIB)
        return UsagePoint(10.0 * (n + 1), cpus, memory, (30 + n // 20) * GIB, busy)

    found = tuple(point(n) for n in range(points))
    most = max(p.cpus for p in found)
    sizes = (80 * GIB,) * gpus
    why = "" if gpus else "there is no nvidia-smi"
    own = (f"node-{rank}", "container", BORN_S, 16, 64 * GIB, 100 * GIB)
    return NodeUsage(task, 1, rank, *own, sizes, why, most, found)


def used() -> RunReport:
    """Return a run on a machine with eight GPUs, of which it used four."""
    asked = Asked(16, 64 * GIB, 100 * GIB, 8)
    spent = [("cost", "12.40 USD"), ("failed", "2.40 USD (1 attempt, 0.50 h)")]
    usage = Used(asked, (node_usage(0, 0, 8),), 1)
    return single()._replace(usage=usage, spent=spent)


def nodes_used() -> RunReport:
    """Return a sweep of nine tasks on two nodes each with a GPU."""
    nodes = tuple(node_usage(task, rank, 1) for task in range(9) for rank in range(2))
    return sweep(9)._replace(usage=Used(Asked(memory_bytes=16 * GIB), nodes, 18))


RUNS: dict[str, Callable[[], RunReport]] = {
    "single": single,
    "sweep": sweep,
    "diverged": diverged,
    "mpi": mpi,
    "spot": spot,
    "elastic": elastic,
    "failed": failed,
    "running": running,
    "used": used,
    "nodes_used": nodes_used,
}
