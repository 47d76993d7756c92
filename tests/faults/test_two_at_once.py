"""Two command lines about one thing at once: as if one had come after the other."""

from __future__ import annotations

from itertools import product

import pytest

from tests.faults import cells, chosen
from tests.faults.cells import slow
from tests.faults.world import (
    LONG,
    Driver,
    Ended,
    World,
    always,
    applied,
    ended_as,
    new_world,
    stopped_at,
)


def together(
    world: World, stop: tuple[str, ...], at: int | str, *others: tuple[str, ...]
) -> list[Ended]:
    """Stop the command line *stop* at its boundary *at*, let *others* end or wait, and let it go on."""
    first = world.start(*stop, at=at, do="stop")
    with stopped_at(world, first):
        rest = [world.start(*words) for words in others]
        world.let(*rest)
    return [world.wait(one) for one in (first, *rest)]


@pytest.mark.parametrize("count", [slow(2), 5])
def test_of_many_applies_of_one_spec_one_starts_the_job_and_all_follow_it(
    driver: Driver, count: int
) -> None:
    with new_world(driver) as world:
        begun = [world.start("apply", "faults.yaml") for _ in range(count)]

        codes = [world.wait(one).code for one in begun]

        assert codes == [0] * count
        assert list(applied(world)) == []


@pytest.mark.slow
def test_an_apply_that_comes_at_any_moment_of_another_starts_nothing(pool: list[Driver]) -> None:
    def cell(driver: Driver, at: int) -> list[str]:
        with new_world(driver) as world:
            apply = ("apply", "faults.yaml")
            ended = together(world, apply, at, apply)
            return [*applied(world), *(one.err for one in ended if one.code)]

    with new_world(pool[0]) as world:
        count = len(world.run("apply", "faults.yaml").labels)

    assert cells.spread(pool, cell, chosen.spaced(range(1, count + 1))) == {}


@pytest.mark.slow
def test_two_applies_that_copy_the_same_folder_at_once_both_succeed(driver: Driver) -> None:
    """Content is shared between specs of different names, which no lock keeps apart."""
    at = "half home/local/blobs/.new-DIGEST/two"
    with new_world(driver) as world:
        world.spec("other")

        ended = together(world, ("apply", "faults.yaml"), at, ("apply", "other.yaml"))

        assert [(one.code, one.err) for one in ended if one.code] == []
        assert list(always(world, jobs=2)) == []


def ending(driver: Driver, verb: str, label: str) -> list[str]:
    """*verb* comes while an apply that will follow its job stands before *label*."""
    with new_world(driver, LONG) as world:
        first = world.start("apply", "faults.yaml", at=label, do="stop")
        with stopped_at(world, first):
            (row,) = world.runs()
            second = world.start(verb, row["run"])
            world.let(second)
        applied_code, ended_code = world.wait(first).code, world.wait(second).code
        state = {"cancel": "cancelled", "destroy": "destroyed"}[verb]
        wrong = list(always(world, (0, 1, 4)))
        if applied_code == 0:
            wrong.append(f"apply exits with 0, and its job was {state}")
        if ended_code != 0:
            wrong.append(f"{verb} exits with {ended_code}")
        (row,) = world.runs()
        if row["state"] != state:
            wrong.append(f"it is {row['state']}")
        return wrong


MOMENTS = (
    "fsync home/runs",  # the record is there, and its lock is free
    "open home/runs/RUN/journal.jsonl",
    "call stage put_folder",
    "call call start",
    "called call start",
    "call state",
)
FIRST = [(MOMENTS[0], "cancel")]
REST = [slow(*pair) for pair in product(MOMENTS, ("cancel", "destroy")) if pair not in FIRST]


@pytest.mark.parametrize("label,verb", [*FIRST, *REST])
def test_apply_says_that_another_command_ended_its_run(
    driver: Driver, verb: str, label: str
) -> None:
    assert ending(driver, verb, label) == []


@pytest.mark.slow
def test_a_second_supervisor_leaves_only_when_the_first_can_be_seen(driver: Driver) -> None:
    """An apply dies while its supervisor claims the run, slowly; the next apply must not take it for gone."""
    with new_world(driver) as world:
        world.run("apply", "faults.yaml", at="await", supervisor={"pause_in_claim_s": 2.0})

        ended = world.run("apply", "faults.yaml")

        assert (ended.code, "succeeded" in ended.err) == (0, True), ended.err
        assert list(applied(world)) == []


@pytest.mark.parametrize("verb", [slow("cancel"), "destroy"])
def test_of_two_that_end_one_run_both_succeed(driver: Driver, verb: str) -> None:
    with new_world(driver, LONG) as world:
        run = cells.started(world)
        begun = [world.start(verb, run) for _ in range(2)]

        codes = [world.wait(one).code for one in begun]

        assert codes == [0, 0]
        assert list(ended_as(world, run, {"cancel": "cancelled"}.get(verb, "destroyed"))) == []
