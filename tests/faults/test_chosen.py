"""What is sampled of the matrices still tries every request that changes something, and every fault."""

from __future__ import annotations

import pytest

from tests.faults import chosen
from tests.support.fault_proxy import FAULTS

MOST = 20
# As AWS has it: of 26 requests of an apply, ten make something.
REQUESTS = {at: f"{'PUT' if at % 5 in (0, 3) else 'GET'} thing-{at}" for at in range(1, 27)}
PLACES = {
    2 * at + after: f"{what} {request}"
    for at, request in REQUESTS.items()
    for after, what in enumerate(("send", "sent"))
}


@pytest.fixture(autouse=True)
def sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "ALL", False)
    monkeypatch.setattr(chosen, "MOST", MOST)


@pytest.mark.parametrize("start", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("count", [MOST + 1, 57, 10 * MOST])
def test_twenty_are_taken_from_the_beginning_to_the_end(count: int, start: float) -> None:
    found = chosen.spaced(range(count), start)

    assert len(set(found)) == MOST
    gaps = [b - a for a, b in zip([-1, *found], [*found, count], strict=True)]
    assert max(gaps) <= count // MOST + 2


def test_where_there_are_no_more_all_are_taken() -> None:
    assert chosen.spaced(range(MOST)) == list(range(MOST))


def test_all_kills_and_faults_are_tried_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "ALL", True)

    assert chosen.kills(PLACES) == list(PLACES)
    assert len(chosen.strikes(REQUESTS, FAULTS)) == len(REQUESTS) * len(FAULTS)


def test_every_fault_is_tried_and_every_request_that_changes_something_meets_one() -> None:
    found = chosen.strikes(REQUESTS, FAULTS)

    assert len(found) == MOST
    assert {fault for _, fault in found} == set(FAULTS)
    assert {at for at, s in REQUESTS.items() if chosen.changes(s)} <= {at for at, _ in found}


def test_a_kill_comes_before_or_after_every_request_that_changes_something() -> None:
    found = [PLACES[at].partition(" ")[2] for at in chosen.kills(PLACES)]

    assert len(found) == MOST
    assert {s for s in REQUESTS.values() if chosen.changes(s)} <= set(found)
    assert any(not chosen.changes(s) for s in found)
