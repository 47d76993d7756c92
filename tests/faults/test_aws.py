"""One job on AWS Batch, and nothing left of it, wherever the lights go out or the wire breaks."""

from __future__ import annotations

import pytest

from runspec_rehearsal.aws.region import Objects
from tests.faults.cells import sample, spread
from tests.faults.cloud import CELLS, new_cloud
from tests.faults.struck import Case, traced
from tests.faults.wire import FAULTS
from tests.faults.world import Driver

LAGS = {"lists lag 0 s": 0.0, "lists lag 2 s": 2.0}


@pytest.mark.slow
@pytest.mark.parametrize("lag_s", LAGS.values(), ids=LAGS)
@pytest.mark.parametrize("verb", CELLS)
def test_killed_at_any_request_and_repeated_it_is_as_if_nothing_had_happened(
    wide_pool: list[Driver], objects: Objects, verb: str, lag_s: float
) -> None:
    kills, case = traced(wide_pool[0], objects, verb).kills(), Case(verb, lag_s=lag_s)

    wrong = spread(wide_pool, lambda driver, at: case.killed(driver, objects, at), kills)

    assert {kills[at]: what for at, what in wrong.items()} == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("verb", ["apply", "cancel", "destroy"])
def test_a_request_that_goes_wrong_changes_nothing_in_the_end(
    wide_pool: list[Driver], objects: Objects, verb: str, fault: str
) -> None:
    strikes, case = traced(wide_pool[0], objects, verb).strikes(), Case(verb)

    wrong = spread(wide_pool, lambda driver, at: case.broken(driver, objects, fault, at), strikes)

    assert {strikes[at]: what for at, what in wrong.items()} == {}


@pytest.mark.slow
def test_a_job_is_submitted_by_one_request(driver: Driver, objects: Objects) -> None:
    with new_cloud(driver, objects) as world:
        world.run("apply", "faults.yaml", wire={"at": None, "fault": None})

        assert world.submits() == 1


@pytest.mark.slow
def test_killed_at_some_requests_it_is_as_if_nothing_had_happened(
    wide_pool: list[Driver], objects: Objects
) -> None:
    kills = traced(wide_pool[0], objects, "apply").kills()
    chosen = [list(kills)[n - 1] for n in sample(len(kills), 4)]

    wrong = spread(wide_pool, lambda driver, at: Case("apply").killed(driver, objects, at), chosen)

    assert {kills[at]: what for at, what in wrong.items()} == {}
