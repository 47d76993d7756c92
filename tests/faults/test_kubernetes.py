"""One job on Kubernetes, and nothing left of it, wherever the lights go out or the wire breaks.

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


@pytest.mark.parametrize("verb", MORE)
def test_killed_at_its_requests_and_repeated_it_is_as_if_nothing_had_happened(
    kubernetes_pool: list[Driver], cluster: New, verb: str
) -> None:
    kills, case = traced(kubernetes_pool[0], cluster, verb).kills(), Case(verb)
    kinds = (chosen.SENT,) if verb == "given up" else (chosen.SEND, chosen.SENT)

    wrong = spread(
        kubernetes_pool,
        lambda driver, at: case.killed(driver, cluster, at),
        chosen.kills(kills, kinds),
    )

    assert {kills[at]: what for at, what in wrong.items()} == {}


@pytest.mark.parametrize("verb", ["apply", "cancel", "destroy", "destroy --site"])
def test_a_request_that_goes_wrong_changes_nothing_in_the_end(
    kubernetes_pool: list[Driver], cluster: New, verb: str
) -> None:
    strikes, case = traced(kubernetes_pool[0], cluster, verb).strikes(), Case(verb)

    wrong = spread(
        kubernetes_pool,
        lambda driver, cell: case.broken(driver, cluster, cell[1], cell[0]),
        chosen.strikes(strikes, FAULTS),
    )

    assert {(strikes[at], fault): what for (at, fault), what in wrong.items()} == {}


@pytest.mark.parametrize("verb", MORE)
def test_whatever_makes_or_takes_away_is_one_request(
    kubernetes_pool: list[Driver], cluster: New, verb: str
) -> None:
    """And there is no such request that no test here counts."""
    found = traced(kubernetes_pool[0], cluster, verb)
    sent = found.labels
    changing = {
        label.removeprefix("send ")
        for label in sent
        if label.startswith("send ") and chosen.changes(label) and " s3 " not in label
    }

    assert changing
    assert changing - found.sent_once.keys() == set()
    for request, asked in found.sent_once.items():
        calls = sum(sent.count(f"call {call}") for call in asked)
        assert sent.count(f"send {request}") <= calls, request


def test_a_job_is_submitted_by_one_request(kubernetes_pool: list[Driver], cluster: New) -> None:
    assert traced(kubernetes_pool[0], cluster, "apply").submits == 1
