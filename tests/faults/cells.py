"""The cells of the matrix: one verb, killed at one boundary, repeated, and what is wrong after that."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

import pytest

from tests.faults.world import (
    KILLED,
    LONG,
    QUICK,
    Driver,
    Ended,
    World,
    always,
    applied,
    await_that,
    ended_as,
    new_world,
)

SEED = 20240607
AT_ONCE = 2
# A record that never got its name: the next apply of the spec takes it away, and nobody sees it.
NEW = "left over: runs/.new-faults"
NO_RECORD = (NEW, *(f"{NEW}/.{name}.new" for name in ("job.yaml", "plan.json", "facts.json")))

Cell = Callable[[Driver, int], list[str]]
Place = TypeVar("Place")


def spread(
    pool: Sequence[Driver], cell: Callable[[Driver, Place], list[str]], places: Iterable[Place]
) -> dict[Place, list[str]]:
    """Give what is wrong after *cell* at each of *places*; two cells at once."""
    free: SimpleQueue[Driver] = SimpleQueue()
    for driver in pool:
        free.put(driver)

    def one(at: Place) -> tuple[Place, list[str]]:
        driver = free.get()
        try:
            return at, cell(driver, at)
        except AssertionError as exc:
            return at, [f"{exc}"]
        finally:
            free.put(driver)

    with ThreadPoolExecutor(len(pool)) as threads:
        return {at: wrong for at, wrong in threads.map(one, places) if wrong}


def slow(*values: Any, **how: Any) -> Any:
    """Give a parameter that only the slow tests try."""
    return pytest.param(*values, marks=pytest.mark.slow, **how)


def sample(count: int, size: int) -> list[int]:
    """Choose *size* of the boundaries 1 to *count*, by the seed above."""
    return sorted(random.Random(SEED).sample(range(1, count + 1), min(size, count)))


def started(world: World) -> str:
    """Start a job that goes on until it is ended, and give its run."""
    done = world.run("apply", "faults.yaml", "--detach")
    assert done.code == 0, done.err
    world.await_truth(2)
    told = [words for words in world.processes().values() if world.canary in words]
    assert told == [], "the secret is in the words of a process"
    return done.out.strip()


# Each verb, killed at a boundary and repeated.


def apply(driver: Driver, at: int) -> list[str]:
    with new_world(driver, QUICK) as world:
        world.run("apply", "faults.yaml", at=at)
        world.again("apply", "faults.yaml")
        return list(applied(world))


def cancelled(world: World) -> str:
    """Cancel a job after its last save, and change its spec to one that ends; return its run."""
    run = started(world)
    assert world.run("cancel", run).code == 0
    world.spec(last=QUICK)
    return run


def resume(driver: Driver, at: int) -> list[str]:
    """An apply --resume is killed and repeated: one run goes on from the one that was cancelled."""
    with new_world(driver, LONG) as world:
        first = cancelled(world)
        world.run("apply", "faults.yaml", "--resume", at=at)
        world.again("apply", "faults.yaml", "--resume")
        wrong = list(always(world, jobs=2))
        rows = [(row["run"], row["state"], row["resumed"]) for row in world.runs()]
        for _, _, resumed in rows:
            if resumed:
                resumed.pop("content", None)  # a digest, which is another one in each world
        states = [(state, resumed) for _, state, resumed in rows]
        if states != [("cancelled", None), ("succeeded", {"run": first, "save": 1})]:
            return [*wrong, f"list says {rows}"]
        began = sorted(line[:2] for line in world.truth())
        if began != sorted([run, rank] for run, _, _ in rows for rank in "01"):
            wrong.append(f"these nodes ran: {began}")
        return wrong


def cancel(driver: Driver, at: int) -> list[str]:
    with new_world(driver, LONG) as world:
        run = started(world)
        world.run("cancel", run, at=at)
        world.again("cancel", run)
        return list(ended_as(world, run, "cancelled"))


def destroy(driver: Driver, at: int) -> list[str]:
    with new_world(driver, LONG) as world:
        run = started(world)
        world.run("destroy", run, at=at)
        world.again("destroy", run)
        return list(ended_as(world, run, "destroyed"))


def destroy_ended(driver: Driver, at: int) -> list[str]:
    with new_world(driver, QUICK) as world:
        world.run("apply", "faults.yaml")
        run = world.runs()[0]["run"]
        world.run("destroy", run, at=at)
        world.again("destroy", run)
        return list(ended_as(world, run, "destroyed"))


def given_up(driver: Driver, at: int | str, **how: Any) -> list[str]:
    """An apply is killed, and its user destroys what there is of it, and what runs share."""
    with new_world(driver, LONG) as world:
        first = world.run("apply", "faults.yaml", "--detach", at=at, **how)
        runs = [row["run"] for row in world.runs()]
        done = world.again("destroy", "faults", **how)
        site = world.again("destroy", "--site")
        wrong = list(always(world, (0, KILLED, 2)))
        if not runs:
            return [w for w in wrong if w not in NO_RECORD] + ["destroy of nothing"] * (
                done.code != 2
            )
        if (done.code, site.code) != (0, 0):
            wrong.append(f"destroy exits with {done.code}, destroy --site with {site.code}")
        assert first.code in (0, KILLED)
        return [*wrong, *ended_as(world, runs[0], "destroyed", (0, KILLED)), *bare(world)]


def bare(world: World) -> list[str]:
    """Give what still lies in the local provider's folder, but for empty folders."""
    root = world.home / "local"
    return [f"left over: {p.relative_to(root)}" for p in root.rglob("*") if not p.is_dir()]


def called_off(driver: Driver, at: int) -> list[str]:
    """An apply is killed, and its user cancels what there is of it."""
    with new_world(driver, LONG) as world:
        world.run("apply", "faults.yaml", "--detach", at=at)
        if not world.runs():
            return [w for w in always(world) if w not in NO_RECORD]
        world.again("cancel", "faults")
        before = len(world.truth())
        wrong = [w for w in always(world) if not w.startswith("left over: local/")]  # for destroy
        if len(world.truth()) > before:
            wrong.append("nodes began after cancel had exited with 0")
        (row,) = world.runs()
        if row["state"] != "cancelled":
            wrong.append(f"after cancel it is {row['state']}")
        return wrong


# The supervisor


def late(driver: Driver, label: str, verb: str, how: Mapping[str, Any] | None = None) -> list[str]:
    """An apply dies at *label*, before its supervisor has claimed the run; that goes on when *verb* has come."""
    with new_world(driver, QUICK if verb == "apply" else LONG) as world:
        gate = world.folder / "gate"
        slow = {"gate": str(gate), **(how or {})}
        first = world.run("apply", "faults.yaml", at=label, supervisor=slow)
        assert first.code == KILLED, f"it has no '{label}'"
        second = world.start(verb, "faults.yaml" if verb == "apply" else "faults", supervisor=slow)
        if verb == "apply":
            await_that(lambda: len(world.supervisors()) == 2, "two supervisors")
        else:
            world.let(second)
        gate.touch()
        world.wait(second)
        if verb == "apply":
            return list(applied(world))
        (row,) = world.runs()
        wrong = ended_as(world, row["run"], {"cancel": "cancelled"}.get(verb, "destroyed"))
        nodes = [f"a node began after {verb} had exited: {line}" for line in world.truth()]
        return [*nodes, *(w for w in wrong if verb == "destroy" or "local/runs/" not in w)]


def bereft(driver: Driver, at: int, last: str = QUICK) -> list[str]:
    """The supervisor is killed at its boundary *at* while its run is followed; then all is taken away."""
    with new_world(driver, last) as world:
        steps = str(world.folder / "traces" / "supervisor")
        first = world.run("apply", "faults.yaml", supervisor={"trace": steps, "at": at})
        (row,) = world.runs()
        wrong = [*told(first, row), *once(world)]
        world.again("cancel", row["run"])
        world.again("destroy", row["run"])
        return wrong + list(ended_as(world, row["run"], "destroyed", (0, 1, 69)))


def told(ended: Ended, row: Mapping[str, Any]) -> list[str]:
    """Give what is not true in what is said of a run whose supervisor was killed."""
    says = (ended.code, row["state"])
    if says == (69, "not-started") and "did not start" in ended.err:
        return []
    if says == (1, "failed") and "killed" in row["reason"]:
        return []
    return [] if says == (0, "succeeded") else [f"exit code {ended.code}, and it is {row}"]


def once(world: World) -> list[str]:
    ranks = [line[1] for line in world.truth()]
    return [] if len(ranks) == len(set(ranks)) else [f"nodes ran twice: {ranks}"]


def orphaned(driver: Driver, verb: str, last: str) -> list[str]:
    """The supervisor is killed while its nodes run; then *verb* takes away what is left of them."""
    with new_world(driver, last) as world:
        run = started(world)
        for pid in world.supervisors():
            os.kill(pid, signal.SIGKILL)
        await_that(lambda: not world.supervisors(), "the end of the supervisor")
        (row,) = world.runs()
        wrong = [] if row["state"] == "failed" and "killed" in row["reason"] else [f"it is {row}"]
        world.again(verb, run)
        return wrong + list(ended_as(world, run, {"cancel": "failed"}.get(verb, "destroyed")))
