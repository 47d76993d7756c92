"""One job on Azure Batch and on Batch AI, and nothing left of it, wherever the lights go out or the wire breaks.

`apply`, `cancel`, `destroy`, `apply` that is given up by `destroy`, and `destroy --site`. What is tried by default: a
kill before and after every request that makes, changes or takes away (after it, where `apply` is given up), and at some
of those that only look; of the eight faults of the wire, four at every request of the first kind and one at every
other, so that each fault meets each kind of request somewhere. Of requests that wait by asking again, the first two.
RUNSPEC_FAULTS=all tries a kill at every boundary, which are the calls of the client as well, and every fault at every
request.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping

import pytest

from tests.faults.cells import sample, spread
from tests.faults.cloud import LAST, MORE, New
from tests.faults.shapes import SINGLE
from tests.faults.struck import Case, asked_first, changes, traced
from tests.faults.wire_azure import FAULTS
from tests.faults.world import QUICK, Driver

pytestmark = pytest.mark.slow

ALL = os.environ.get("RUNSPEC_FAULTS") == "all"
AT_ONCE = 4  # faults, at a request that changes something
LOOKS = 3  # kills of each verb where it only looks


@pytest.fixture(scope="module", params=["account", "subscription"], ids=["batch", "batch-ai"])
def service(request: pytest.FixtureRequest) -> New:
    """What makes a world on each of the two services."""
    found: New = request.getfixturevalue(request.param)
    return found


def kills_of(verb: str, places: Mapping[int, str]) -> list[int]:
    """Choose where to kill *verb*."""
    places = asked_first(places)
    if ALL:
        return list(places)
    looks = [at for at, label in places.items() if not changes(label)]
    kinds = ("sent ",) if verb == "given up" else ("send ", "sent ")
    chosen = [at for at, label in places.items() if changes(label) and label.startswith(kinds)]
    return [*chosen, *(looks[n - 1] for n in sample(len(looks), LOOKS))]


def strikes_of(requests: Mapping[int, str]) -> list[tuple[int, str]]:
    """Choose which request meets which faults: each begins where the one before it ended."""
    left, turn = asked_first(requests), itertools.cycle(FAULTS)
    counts = {at: AT_ONCE if changes(label) else 1 for at, label in left.items()}
    if ALL:
        return list(itertools.product(left, FAULTS))
    return [(at, next(turn)) for at, count in counts.items() for _ in range(count)]


@pytest.mark.parametrize("verb", MORE)
def test_killed_at_its_requests_and_repeated_it_is_as_if_nothing_had_happened(
    azure_pool: list[Driver], service: New, verb: str
) -> None:
    kills, case = traced(azure_pool[0], service, verb).kills(), Case(verb)

    wrong = spread(
        azure_pool, lambda driver, at: case.killed(driver, service, at), kills_of(verb, kills)
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
        strikes_of(strikes),
    )

    assert {(strikes[at], fault): what for (at, fault), what in wrong.items()} == {}


@pytest.mark.parametrize("verb", MORE)
def test_whatever_makes_or_takes_away_is_one_request(
    azure_pool: list[Driver], service: New, verb: str
) -> None:
    """And there is no such request that no test here counts."""
    with service(azure_pool[0], LAST[verb], 0.0, SINGLE) as world:
        MORE[verb](world)
        sent = [step["label"] for ended in world.log for step in ended.steps]
        changing = {
            label.removeprefix("send ")
            for label in sent
            if label.startswith("send ") and changes(label) and " blob " not in label
        }

        assert changing
        assert changing - world.sent_once.keys() == set()
        for request, asked in world.sent_once.items():
            calls = sum(sent.count(f"call {call}") for call in asked)
            assert sent.count(f"send {request}") <= calls, request


def test_a_job_is_submitted_by_one_request(azure_pool: list[Driver], service: New) -> None:
    with service(azure_pool[0], QUICK, 0.0, SINGLE) as world:
        world.run("apply", "faults.yaml")

        assert world.submits() == 1
