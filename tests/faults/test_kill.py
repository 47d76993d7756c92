"""Each thing is made once and nothing is left, wherever the lights go out.

The slow tests try twenty boundaries of each verb, and all by RUNSPEC_FAULTS=all: their number comes from a trace, never
from here. Verbs that pass the same boundaries are killed at different ones. The others try a few of all, chosen by
`cells.SEED`.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.faults import cells, chosen
from tests.faults.cells import slow
from tests.faults.world import LONG, QUICK, STUBBORN, Driver, World, new_world

FEW = 5  # boundaries of all verbs in the run that is not slow
VERBS: dict[str, cells.Cell] = {
    "apply": cells.apply,
    "apply, then destroy": cells.given_up,
    "apply, then cancel": cells.called_off,
    "cancel": cells.cancel,
    "destroy": cells.destroy,
    "destroy of an ended run": cells.destroy_ended,
}
# Verbs that pass the same boundaries are killed at different places of each stretch of them.
STARTS = {
    "apply": 0.1,
    "apply, then destroy": 0.4,
    "apply, then cancel": 0.7,
    "destroy": 0.25,
    "destroy of an ended run": 0.75,
}


def boundaries(driver: Driver, verb: str) -> list[str]:
    """Give the boundaries of *verb* as a run of it that is not killed passes them."""
    with new_world(
        driver, QUICK if verb in ("apply", "destroy of an ended run") else LONG
    ) as world:
        if verb == "apply":
            found = world.run("apply", "faults.yaml")
        elif verb.startswith("apply"):
            found = world.run("apply", "faults.yaml", "--detach")
        elif verb == "destroy of an ended run":
            world.run("apply", "faults.yaml")
            found = world.run("destroy", "faults")
        else:
            cells.started(world)
            found = world.run(verb, "faults")
        assert found.code == 0, found.err
        return found.labels


def of_resume(driver: Driver) -> list[str]:
    with new_world(driver, LONG) as world:
        cells.cancelled(world)
        ended = world.run("apply", "faults.yaml", "--resume")
        assert ended.code == 0, ended.err
        return ended.labels


def of_supervisor(driver: Driver) -> list[str]:
    with new_world(driver) as world:
        trace = world.folder / "traces" / "supervisor"
        world.run("apply", "faults.yaml", supervisor={"trace": str(trace)})
        world.await_quiet()
        return [step["label"] for step in world.steps(trace)]


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_any_boundary_and_repeated_it_is_as_if_nothing_had_happened(
    pool: list[Driver], verb: str
) -> None:
    labels = boundaries(pool[0], verb)

    wrong = cells.spread(
        pool, VERBS[verb], chosen.spaced(range(1, len(labels) + 1), STARTS.get(verb, 0.5))
    )

    assert {labels[at - 1]: what for at, what in wrong.items()} == {}


@pytest.mark.slow
def test_a_killed_and_repeated_resume_starts_one_run_that_goes_on(pool: list[Driver]) -> None:
    labels = of_resume(pool[0])

    wrong = cells.spread(pool, cells.resume, chosen.spaced(range(1, len(labels) + 1), 0.9))

    assert {labels[at - 1]: what for at, what in wrong.items()} == {}


def test_killed_at_some_boundaries_and_repeated_it_is_as_if_nothing_had_happened(
    pool: list[Driver],
) -> None:
    labels = traced(pool)
    places = [(verb, at) for verb in VERBS for at in range(1, len(labels[verb]) + 1)]
    chosen = [places[n - 1] for n in cells.sample(len(places), FEW)]

    wrong = cells.spread(pool, lambda driver, place: VERBS[place[0]](driver, place[1]), chosen)

    assert {f"{verb}: {labels[verb][at - 1]}": what for (verb, at), what in wrong.items()} == {}


def traced(pool: list[Driver]) -> dict[str, list[str]]:
    """Give the boundaries of every verb."""
    found: dict[str, list[str]] = {}

    def trace(driver: Driver, verb: str) -> list[str]:
        found[verb] = boundaries(driver, verb)
        return []

    assert cells.spread(pool, trace, VERBS) == {}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("last", [QUICK, LONG, STUBBORN], ids=["quick", "long", "stubborn"])
def test_a_run_whose_supervisor_is_killed_at_any_boundary_tells_the_truth_and_leaves_nothing(
    pool: list[Driver], last: str
) -> None:
    labels = of_supervisor(pool[0])
    started = len(labels) - labels[::-1].index("spawn sh")  # both nodes run from then on
    everywhere = range(1, len(labels) + 1)
    places = chosen.spaced(everywhere) if last == QUICK else cells.sample(started, 8)

    wrong = cells.spread(pool, lambda driver, at: cells.bereft(driver, at, last), places)

    assert {labels[at - 1]: what for at, what in wrong.items()} == {}


@pytest.mark.parametrize("verb", [slow("cancel"), "destroy"])
@pytest.mark.parametrize("last", [slow(LONG, id="long"), pytest.param(STUBBORN, id="stubborn")])
def test_a_run_whose_supervisor_was_killed_has_failed_and_can_be_taken_away(
    driver: Driver, verb: str, last: str
) -> None:
    assert cells.orphaned(driver, verb, last) == []


@pytest.mark.parametrize("verb", ["apply", slow("cancel"), slow("destroy")])
@pytest.mark.parametrize(
    "label",
    [slow("spawn python, then write pipe"), slow("spawn python, then half pipe"), "await"],
)
def test_a_supervisor_that_claims_its_run_too_late_makes_nothing_twice_and_nothing_in_vain(
    driver: Driver, verb: str, label: str
) -> None:
    assert cells.late(driver, label, verb) == []


def test_nothing_changes_on_the_disk_but_at_a_boundary_that_names_it(driver: Driver) -> None:
    """The count is complete: between two boundaries only what the first of them names has changed."""
    with new_world(driver) as world:
        steps = world.run("apply", "faults.yaml", look=True).steps
        steps += world.run("destroy", "faults", look=True).steps

        unannounced = [
            f"{path} after '{one['label']}'"
            for one, next_ in pairwise(steps)
            for path in changed(one["seen"], next_["seen"])
            if is_ours(world, path) and not path.startswith(tuple(one["paths"]) or "-")
        ]

    assert unannounced == []


def changed(before: dict[str, int], after: dict[str, int]) -> list[str]:
    return [path for path in {*before, *after} if before.get(path) != after.get(path)]


def is_ours(world: World, path: str) -> bool:
    """Say whether *path* is for the command line to write; the rest of a local run is its supervisor's."""
    runs = f"{world.home}/local/runs/"
    inside = path.removeprefix(runs).partition("/")[2]
    return not path.startswith(runs) or inside in (
        "inside.sh",
        "runspec_inside.pyz",
        "job.json",
        "cancel",
    )
