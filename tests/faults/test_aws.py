"""One job on AWS Batch, and nothing left of it, wherever the lights go out or the wire breaks."""

from __future__ import annotations

import pytest

from runspec_rehearsal.aws.region import Objects
from tests.faults import cloud
from tests.faults.cells import sample, spread
from tests.faults.cloud import CELLS, LAST, new_cloud
from tests.faults.wire import FAULTS
from tests.faults.world import Driver

# The steps of the file system between two of these are tried with the local provider.
REMOTE = ("send", "sent", "call", "called")
LAGS = {"lists lag 0 s": 0.0, "lists lag 2 s": 2.0}


def traced(driver: Driver, objects: Objects, verb: str) -> tuple[list[int], list[str], int]:
    """Give the boundaries of *verb* where it talks to somebody, all labels, and how many requests it makes."""
    with new_cloud(driver, objects, LAST[verb]) as world:
        done = cloud.trace(world, verb)
    steps = [step for step in done.steps if step["n"] is not None]
    places = [step["n"] for step in steps if step["what"] in REMOTE]
    return places, done.labels, sum(step["what"] == "send" for step in done.steps)


def killed(driver: Driver, objects: Objects, verb: str, lag_s: float, at: int) -> list[str]:
    with new_cloud(driver, objects, LAST[verb], lag_s) as world:
        return CELLS[verb](world, at=at)


def broken(driver: Driver, objects: Objects, verb: str, fault: str, at: int) -> list[str]:
    with new_cloud(driver, objects, LAST[verb]) as world:
        found = CELLS[verb](world, wire={"at": at, "fault": fault})
        return [w for w in found if not excused(w, fault)]


def excused(wrong: str, fault: str) -> bool:
    """What was refused is said with an exit code of its own; then the same command has gone through."""
    codes = {"expired": ("exit code 5:",), "throttled": ("exit code 69:",)}
    return wrong.startswith(codes.get(fault, ("exit code 69:",)))


@pytest.mark.slow
@pytest.mark.parametrize("lag_s", LAGS.values(), ids=LAGS)
@pytest.mark.parametrize("verb", CELLS)
def test_killed_at_any_request_and_repeated_it_is_as_if_nothing_had_happened(
    wide_pool: list[Driver], objects: Objects, verb: str, lag_s: float
) -> None:
    places, labels, _ = traced(wide_pool[0], objects, verb)

    wrong = spread(wide_pool, lambda driver, at: killed(driver, objects, verb, lag_s, at), places)

    assert {labels[at - 1]: what for at, what in wrong.items()} == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("verb", ["apply", "cancel", "destroy"])
def test_a_request_that_goes_wrong_changes_nothing_in_the_end(
    wide_pool: list[Driver], objects: Objects, verb: str, fault: str
) -> None:
    _, _, requests = traced(wide_pool[0], objects, verb)

    wrong = spread(
        wide_pool,
        lambda driver, at: broken(driver, objects, verb, fault, at),
        range(1, requests + 1),
    )

    assert wrong == {}


@pytest.mark.slow
def test_a_job_is_submitted_by_one_request(driver: Driver, objects: Objects) -> None:
    with new_cloud(driver, objects) as world:
        world.run("apply", "faults.yaml", wire={"at": None, "fault": None})

        assert world.submits() == 1


@pytest.mark.slow
def test_killed_at_some_requests_it_is_as_if_nothing_had_happened(
    wide_pool: list[Driver], objects: Objects
) -> None:
    places, labels, _ = traced(wide_pool[0], objects, "apply")
    chosen = [places[n - 1] for n in sample(len(places), 4)]

    wrong = spread(wide_pool, lambda driver, at: killed(driver, objects, "apply", 0.0, at), chosen)

    assert {labels[at - 1]: what for at, what in wrong.items()} == {}
