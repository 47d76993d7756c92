"""A smoke test and its job are each made once, in their order, wherever the lights go out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults import cells, chosen
from tests.faults.world import QUICK, Driver, World, always, new_world

FEW = 3  # boundaries in the run that is not slow: of two runs there are hundreds


def write_smoke(world: World) -> None:
    """Let the smoke test do what the job does: what ran is told by its run."""
    path = world.folder / "faults.yaml"
    text = path.read_text()
    path.write_text(text + "smoke: |\n" + text.partition("run: |\n")[2])


def apply(driver: Driver, at: int) -> list[str]:
    with new_world(driver, QUICK) as world:
        write_smoke(world)
        world.run("apply", "--smoke", "faults.yaml", at=at)
        world.again("apply", "--smoke", "faults.yaml")
        return list(wrong(world))


def wrong(world: World) -> Iterator[str]:
    yield from always(world, jobs=2)
    ran = [line[0] for line in world.truth()]
    names = list(dict.fromkeys(ran))
    if [len(ran), *(name.startswith("faults-smoke-") for name in names)] != [4, True, False]:
        yield f"{ran} ran, and not two nodes of a smoke test and then two of the job"
    listed = {row["run"]: row["state"] for row in world.runs()}
    if listed != dict.fromkeys(names, "succeeded"):
        yield f"list says {listed}, and {names} ran"


def labels(driver: Driver) -> list[str]:
    with new_world(driver, QUICK) as world:
        write_smoke(world)
        done = world.run("apply", "--smoke", "faults.yaml")
        assert (done.code, list(wrong(world))) == (0, []), done.err
        return done.labels


@pytest.mark.parametrize(
    "few",
    [True, pytest.param(False, marks=(pytest.mark.slow, pytest.mark.matrix))],
    ids=["few", "more"],
)
def test_killed_and_repeated_it_is_as_if_nothing_had_happened(
    pool: list[Driver], few: bool
) -> None:
    found = labels(pool[0])
    places = range(1, len(found) + 1)
    tried = cells.sample(len(found), FEW) if few else chosen.spaced(places)

    bad = cells.spread(pool, apply, tried)

    assert {found[at - 1]: what for at, what in bad.items()} == {}
