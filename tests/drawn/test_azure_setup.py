"""A setup takes every answer of the Resource Manager for what it is, or says what is wrong with it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import Any, Self

import pytest
from azure.core.pipeline.policies import BearerTokenCredentialPolicy

from runspec_azure.batch import timing
from runspec_azure.batch.setup import client, manager
from tests.drawn import azure_setup as setup
from tests.drawn.azure_cases import Case, cases, judged, outcome
from tests.drawn.azure_setup import SURVEY, Login, Subscription
from tests.drawn.azure_table import operations
from tests.drawn.azure_ways import Way
from tests.drawn.drawing import COUNT, tried
from tests.support.azure.plain_tokens import send_over_http
from tests.support.http_server import Server

pytestmark = pytest.mark.slow

NO_QUOTA: Any = {**SURVEY, "quotas": {"accounts": None, "dedicated": None, "spot": None}}
GIVEN: Any = {**NO_QUOTA, "quotas": {**NO_QUOTA["quotas"], "accounts": 3}}


def resource(kind: str, step: str) -> dict[str, tuple[Way, ...]]:
    return {
        f"{kind}_Put": (Way("alone", setup.call(step)),),
        f"{kind}_Get": (
            Way("alone", setup.find(step), (None,)),
            Way("alone", setup.settled(step)),
            Way("alone", setup.undo(step), ({},)),
            Way("alone", setup.conflicts, ([],)),
        ),
        f"{kind}_Delete": (Way("alone", setup.undo(step), ({},)),),
    }


LISTED = (Way("used", setup.conflicts), Way("alone", setup.conflicts))
WAYS: dict[str, tuple[Way, ...]] = {
    **resource("Group", "group"),
    **resource("Storage", "storage"),
    **resource("Container", "container"),
    **resource("Identity", "identity"),
    **resource("Batch", "batch"),
    **resource("Role", "role-jobs"),
    "Storage_ListKeys": (Way("alone", setup.conflicts),),
    "Subscriptions_List": (Way("alone", setup.surveyed),),
    "Group_ListResources": LISTED,
    "Container_List": LISTED,
    "Share_List": LISTED,
    "Queue_List": LISTED,
    "Table_List": LISTED,
    "Pool_List": (*LISTED, Way("alone", setup.delete_data)),
    "Batch_List": LISTED,
    "Quota_Get": (Way("alone", setup.surveyed, (NO_QUOTA,)),),
}


class NoBlobs:
    """A container without blobs."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def list_blobs(self, **_: Any) -> list[Any]:
        return []


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for what is being deleted, and tokens are sent over http."""
    short = {"gone_s": 0.05, "first_pause_s": 0.001, "longest_pause_s": 0.002}
    monkeypatch.setattr(timing, "DEFAULT", dataclasses.replace(timing.DEFAULT, **short))
    monkeypatch.setattr(manager, "refuse_plain", lambda *_: None)
    monkeypatch.setattr("runspec_azure.session.transport.find_login", lambda _: Login())
    monkeypatch.setattr(BearerTokenCredentialPolicy, "on_request", send_over_http)
    monkeypatch.setattr(client, "ContainerClient", NoBlobs)
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # thousands of lines


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as found:
        yield found


def check(account: Subscription, name: str, way: Way, expected: Any, case: Case) -> None:
    account.reset()
    account.cloud.draw(name, case.answer, case.often)
    found = outcome(lambda: way.drive(account))
    assert account.cloud.served, f"{name} was not asked for"
    assert not account.server.wrong, account.server.wrong
    judged(case, found, expected, absent=way.absent)


@pytest.mark.parametrize("name", WAYS)
def test_a_setup_takes_every_answer_for_what_it_is(name: str, server: Server) -> None:
    for number, way in enumerate(WAYS[name]):
        account = Subscription(server, way.phase)
        expected = way.drive(account)
        truth = account.truths().get(name)
        strategy = cases(operations("setup")[name], truth, account.told(name))

        def checked(
            case: Case, account: Subscription = account, way: Way = way, expected: Any = expected
        ) -> None:
            check(account, name, way, expected, case)

        # Hundreds of requests in all: the ways of an operation share its draws.
        most = max(5, COUNT // len(WAYS[name]))
        assert tried(f"{name} {number}", strategy, checked, most) > 0


def test_every_operation_of_a_setup_is_tried() -> None:
    assert set(WAYS) == set(operations("setup"))
