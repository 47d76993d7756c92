"""One job on AWS Batch, and nothing left of it, wherever the lights go out or the wire breaks.

Where it is killed and struck, chosen.py says; where `apply` is given up, after the changes alone.
"""

from __future__ import annotations

import pytest

from tests.faults import chosen
from tests.faults.cells import sample, spread
from tests.faults.cloud import CELLS, New
from tests.faults.struck import Case, traced
from tests.faults.world import Driver
from tests.support.fault_proxy import FAULTS

LAGS_S = (0.0, 2.0)  # until lists have what was made
# Kills while lists do not lag find no more than kills while they do.
CASES = [
    pytest.param(verb, lag_s, marks=() if lag_s else pytest.mark.matrix)
    for verb in CELLS
    for lag_s in LAGS_S
]


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "lag_s"), CASES)
def test_killed_at_its_requests_and_repeated_it_is_as_if_nothing_had_happened(
    wide_pool: list[Driver], region: New, verb: str, lag_s: float
) -> None:
    kills, case = traced(wide_pool[0], region, verb).kills(), Case(verb, lag_s=lag_s)
    kinds = (chosen.SENT,) if verb == "given up" else (chosen.SEND, chosen.SENT)

    wrong = spread(
        wide_pool, lambda driver, at: case.killed(driver, region, at), chosen.kills(kills, kinds)
    )

    assert {kills[at]: what for at, what in wrong.items()} == {}


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["apply", "cancel", "destroy"])
def test_a_request_that_goes_wrong_changes_nothing_in_the_end(
    wide_pool: list[Driver], region: New, verb: str
) -> None:
    strikes, case = traced(wide_pool[0], region, verb).strikes(), Case(verb)

    wrong = spread(
        wide_pool,
        lambda driver, cell: case.broken(driver, region, cell[1], cell[0]),
        chosen.strikes(strikes, FAULTS),
    )

    assert {(strikes[at], fault): what for (at, fault), what in wrong.items()} == {}


@pytest.mark.slow
def test_a_job_is_submitted_by_one_request(wide_pool: list[Driver], region: New) -> None:
    assert traced(wide_pool[0], region, "apply").submits == 1


@pytest.mark.slow
@pytest.mark.matrix
def test_killed_at_some_requests_it_is_as_if_nothing_had_happened(
    wide_pool: list[Driver], region: New
) -> None:
    kills = traced(wide_pool[0], region, "apply").kills()
    chosen = [list(kills)[n - 1] for n in sample(len(kills), 4)]

    wrong = spread(wide_pool, lambda driver, at: Case("apply").killed(driver, region, at), chosen)

    assert {kills[at]: what for at, what in wrong.items()} == {}
