"""A setup makes each thing once, and its undoing leaves nothing, wherever they are killed or an answer is lost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from runspec_emulators.azure_services.blob import Blobs
from tests.faults import chosen, setups
from tests.faults.cells import spread
from tests.faults.conftest import drivers
from tests.faults.setups import AwsSetup, AzureSetup, New, new_setup
from tests.faults.world import Driver
from tests.support.aws.empty_account import empty_account
from tests.support.fault_proxy import FAULTS

# All kills and faults of one test take up to an hour on AWS, whose account all cells share.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

AT_ONCE = 3


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[New, list[Driver]]]:
    with (
        empty_account(tmp_path_factory.mktemp("account")) as account,
        drivers(1, AwsSetup.sdk) as pool,
    ):
        yield partial(new_setup, partial(AwsSetup, account=account)), pool


@pytest.fixture(scope="module")
def azure(blobs: Blobs) -> Iterator[tuple[New, list[Driver]]]:
    with drivers(AT_ONCE, AzureSetup.sdk) as pool:
        yield partial(new_setup, partial(AzureSetup, blobs=blobs)), pool


@pytest.fixture(scope="module", params=["aws", "azure"])
def account(request: pytest.FixtureRequest) -> tuple[New, list[Driver]]:
    found: tuple[New, list[Driver]] = request.getfixturevalue(request.param)
    return found


def test_a_killed_and_repeated_setup_makes_each_thing_once(
    account: tuple[New, list[Driver]],
) -> None:
    new, pool = account
    made, _, *wanted = setups.trace(new, pool[0])
    places = setups.places(made)

    wrong = spread(
        pool,
        lambda driver, at: setups.disturbed(new, driver, {"at": at}, wanted),
        chosen.spaced(list(places)),
    )

    assert {places[at]: what for at, what in wrong.items()} == {}


def test_a_killed_and_repeated_undo_leaves_nothing(account: tuple[New, list[Driver]]) -> None:
    new, pool = account
    places = setups.places(setups.trace(new, pool[0])[1])

    wrong = spread(
        pool,
        lambda driver, at: setups.disturbed_undo(new, driver, {"at": at}),
        chosen.spaced(list(places), 0.2),
    )

    assert {places[at]: what for at, what in wrong.items()} == {}


def test_a_setup_whose_request_goes_wrong_makes_each_thing_once(
    account: tuple[New, list[Driver]],
) -> None:
    new, pool = account
    made, _, *wanted = setups.trace(new, pool[0])
    sent = setups.requests(made)

    wrong = spread(
        pool,
        lambda driver, how: setups.disturbed(new, driver, {"wire": dict(how)}, wanted),
        [(("at", at), ("fault", fault)) for at, fault in chosen.strikes(sent, FAULTS)],
    )

    assert {(sent[how[0][1]], how[1][1]): what for how, what in wrong.items()} == {}


def test_an_undo_whose_request_goes_wrong_leaves_nothing(
    account: tuple[New, list[Driver]],
) -> None:
    new, pool = account
    sent = setups.requests(setups.trace(new, pool[0])[1])

    wrong = spread(
        pool,
        lambda driver, how: setups.disturbed_undo(new, driver, {"wire": dict(how)}),
        [(("at", at), ("fault", fault)) for at, fault in chosen.strikes(sent, FAULTS)],
    )

    assert {(sent[how[0][1]], how[1][1]): what for how, what in wrong.items()} == {}
