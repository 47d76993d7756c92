"""Nodes of an elastic job are given back and asked for again by commands that are killed, or get no answer.

Each cell kills `resize` on the way down at one boundary and on the way up at another, and repeats both. Then one job
has run, nothing is left over, and both nodes have come back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest

from runspec_emulators.slurm import Cluster, Shape as Machine
from tests.faults import cloud as clouds
from tests.faults.cells import spread
from tests.faults.chosen import asked_first, changes, spaced
from tests.faults.cloud import Cloud, New
from tests.faults.conftest import drivers
from tests.faults.shapes import ELASTIC
from tests.faults.slurm import slurm
from tests.faults.struck import Traced, excused, located
from tests.faults.test_elastic import UNTIL_TOLD, OnLocal
from tests.faults.world import Driver, Ended, World, always, await_that, new_world
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow

How = Mapping[str, Any]
FAULT = "reset after"  # of a request, which was carried out


def start(world: World) -> str:
    done = world.run("apply", "faults.yaml", "--detach")
    assert done.code == 0, done.err
    world.await_truth(2)
    return done.out.strip()


def size(world: World, run: str) -> tuple[int, int]:
    found = json.loads(world.run("status", run, "--json").out)["size"]
    return found["asked"], found["present"]


def resize(world: World, run: str, count: int, how: How) -> Iterator[str]:
    """Change the number of nodes by a command that is disturbed as *how* says, and repeated."""
    world.run("resize", run, str(count), **how)
    done = world.again("resize", run, str(count))
    if done.code:
        yield f"resize {count} ends with {done.code}: {done.err.strip()[-300:]}"


def give_back(world: World, run: str, down: How, up: How | None) -> Iterator[str]:
    yield from resize(world, run, 1, down)
    if (found := size(world, run)) != (1, 1):
        yield f"after resize 1, {found} are asked for and present"
    world.await_truth(3)
    if up is not None:
        yield from resize(world, run, 2, up)
        await_that(lambda: size(world, run) == (2, 2), "both nodes")
        world.await_truth(5)
    (world.folder / "truth.go").touch()
    await_that(lambda: world.runs()[0]["state"] not in ("running", "waiting"), "the end")


def trace(world: World, *, comes_back: bool) -> tuple[Ended, Ended]:
    """Give how the commands end that have one node less, and one more, with nothing in their way."""
    run = start(world)
    first = len(world.log)
    assert list(give_back(world, run, {}, {} if comes_back else None)) == []
    return world.log[first], world.log[first + 3 if comes_back else first]


def cell(
    new: Callable[[Driver], AbstractContextManager[World]],
    driver: Driver,
    how: tuple[How, How | None],
) -> list[str]:
    with new(driver) as world:
        run = start(world)
        wrong = list(give_back(world, run, *how))
        if isinstance(world, Cloud):
            found = [*wrong, *clouds.ended(world, "succeeded")]
            return [what for what in found if not excused(what, FAULT)]
        return [*wrong, *always(world)]


def hows(found: Traced, fault: str) -> list[How]:
    """Give the kills to try, and the faults of requests that change something."""
    kills: list[How] = [{"at": at} for at in spaced(list(asked_first(found.places)))]
    strikes = [at for at, label in found.strikes().items() if changes(label)]
    return [*kills, *({"wire": {"at": at, "fault": fault}} for at in strikes if fault)]


def wrong_with(
    pool: list[Driver], new: New, fault: str, *, comes_back: bool = True
) -> Mapping[str, list[str]]:
    def world(driver: Driver) -> AbstractContextManager[Cloud]:
        return new(driver, UNTIL_TOLD, 0.0, ELASTIC)

    with world(pool[0]) as first:
        found = trace(first, comes_back=comes_back)
    each = [hows(located(one.steps), fault) for one in found]
    count = max(map(len, each))
    pairs = [
        (each[0][n % len(each[0])], each[1][n % len(each[1])] if comes_back else None)
        for n in range(count)
    ]
    wrong = spread(pool, lambda driver, n: cell(world, driver, pairs[n]), range(count))
    return {str(pairs[n]): found for n, found in wrong.items()}


def test_on_azure_batch_it_is_as_if_nothing_had_happened(
    azure_pool: list[Driver], account: New
) -> None:
    assert wrong_with(azure_pool, account, FAULT) == {}


def test_on_aws_batch_a_node_leaves_once(wide_pool: list[Driver], region: New) -> None:
    assert wrong_with(wide_pool, region, FAULT, comes_back=False) == {}


def test_on_slurm_it_is_as_if_nothing_had_happened(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    need(*PROGRAMS)
    machine = Machine(cpus=64, memory_mb=None)
    with (
        Cluster(tmp_path_factory.mktemp("c"), 2, machine, more={"KillWait": 1}) as cluster,
        drivers(6, "slurm") as pool,
    ):
        assert wrong_with(pool, slurm(cluster), "") == {}


def test_on_this_machine_it_is_as_if_nothing_had_happened(pool: list[Driver]) -> None:
    def world(driver: Driver) -> AbstractContextManager[World]:
        return new_world(driver, UNTIL_TOLD, OnLocal)

    with world(pool[0]) as first:
        down, up = (len(one.labels) for one in trace(first, comes_back=True))
    places = list(zip(*(spaced(range(1, count + 1)) for count in (down, up)), strict=False))

    def killed(driver: Driver, place: tuple[int, int]) -> list[str]:
        return cell(world, driver, ({"at": place[0]}, {"at": place[1]}))

    assert spread(pool, killed, places) == {}
