"""One job on Azure Batch and on Batch AI, and nothing left of it, wherever the lights go out or the wire breaks.

`apply`, `cancel`, `destroy`, `apply` that is given up by `destroy`, and `destroy --site`, each killed and struck where
chosen.py says; where `apply` is given up, of the changes after each alone.
"""

from __future__ import annotations

import pytest

from tests.faults import chosen
from tests.faults.cells import spread
from tests.faults.cloud import MORE, New
from tests.faults.struck import Case, traced
from tests.faults.world import Driver
from tests.support.fault_proxy import FAULTS

pytestmark = pytest.mark.slow


# The service of Batch AI was retired in 2019, and its kills cost as much as those of Azure Batch.
BATCH_AI = pytest.param("subscription", id="batch-ai", marks=pytest.mark.matrix)


@pytest.fixture(scope="module", params=[pytest.param("account", id="batch"), BATCH_AI])
def service(request: pytest.FixtureRequest) -> New:
    """What makes a world on each of the two services."""
    found: New = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("verb", MORE)
def test_killed_at_its_requests_and_repeated_it_is_as_if_nothing_had_happened(
    azure_pool: list[Driver], service: New, verb: str
) -> None:
    kills, case = traced(azure_pool[0], service, verb).kills(), Case(verb)
    kinds = (chosen.SENT,) if verb == "given up" else (chosen.SEND, chosen.SENT)

    wrong = spread(
        azure_pool,
        lambda driver, at: case.killed(driver, service, at),
        chosen.kills(kills, kinds),
    )

    assert {kills[at]: what for at, what in wrong.items()} == {}


@pytest.mark.parametrize("verb", ["apply", "cancel", "destroy", "destroy --site"])
def test_a_request_that_goes_wrong_changes_nothing_in_the_end(
    azure_pool: list[Driver], service: New, verb: str
) -> None:
    strikes, case = traced(azure_pool[0], service, verb).strikes(), Case(verb)

    wrong = spread(
        azure_pool,
        lambda driver, cell: case.broken(driver, service, cell[1], cell[0]),
        chosen.strikes(strikes, FAULTS),
    )

    assert {(strikes[at], fault): what for (at, fault), what in wrong.items()} == {}


@pytest.mark.parametrize("verb", MORE)
def test_whatever_makes_or_takes_away_is_one_request(
    azure_pool: list[Driver], service: New, verb: str
) -> None:
    """And there is no such request that no test here counts."""
    found = traced(azure_pool[0], service, verb)
    sent = found.labels
    changing = {
        label.removeprefix("send ")
        for label in sent
        if label.startswith("send ") and chosen.changes(label) and " blob " not in label
    }

    assert changing
    assert changing - found.sent_once.keys() == set()
    for request, asked in found.sent_once.items():
        calls = sum(sent.count(f"call {call}") for call in asked)
        assert sent.count(f"send {request}") <= calls, request


def test_a_job_is_submitted_by_one_request(azure_pool: list[Driver], service: New) -> None:
    assert traced(azure_pool[0], service, "apply").submits == 1
