"""The wire fails as it is told to, and every call is on record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ServiceResponseError

from tests.emulators.batch_ai.hand import PLACE, Hand, code as said, get


def fault(hand: Hand, kind: str, operation: str, **more: Any) -> None:
    hand.stand.control("PUT", "faults", [{"kind": kind, "operation": operation, **more}])


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("throttle", 429, "TooManyRequests"),
        ("error-before", 500, "InternalServerError"),
        ("expired", 401, "ExpiredAuthenticationToken"),
    ],
)
def test_a_fault_before_means_that_nothing_was_done(
    hand: Hand, kind: str, status: int, code: str
) -> None:
    fault(hand, kind, "Experiments_Create")

    with pytest.raises(HttpResponseError) as caught:
        hand.client.experiments.begin_create(*PLACE, "other")

    assert (caught.value.status_code, said(caught.value)) == (status, code)
    assert [e.name for e in hand.client.experiments.list_by_workspace(*PLACE)] == ["experiment"]


@pytest.mark.parametrize("kind", ["error-after", "reset-after"])
def test_a_fault_after_means_that_it_was_done(hand: Hand, kind: str) -> None:
    fault(hand, kind, "Experiments_Create")

    with pytest.raises((HttpResponseError, ServiceResponseError)):
        hand.client.experiments.begin_create(*PLACE, "other")

    assert len(list(hand.client.experiments.list_by_workspace(*PLACE))) == 2


def test_a_fault_can_strike_the_reading_of_a_file(hand: Hand) -> None:
    hand.run("echo one")
    link = hand.files()["stdout.txt"].download_url
    fault(hand, "error-before", "GetFile", times=1)

    assert [get(link).status, get(link).status] == [500, 200]


def test_every_call_is_on_record_and_how_it_went(hand: Hand) -> None:
    fault(hand, "throttle", "Clusters_Get")
    for _ in range(2):
        try:
            hand.client.clusters.get(*PLACE, "cluster")
        except HttpResponseError:
            continue

    last = hand.stand.control("GET", "calls")[-2:]

    assert [call["operation"] for call in last] == ["Clusters_Get"] * 2
    assert [call["outcome"] for call in last] == ["throttle", "ok"]
    assert last[0]["path"]["clusterName"] == "cluster"


def test_the_record_holds_no_key(hand: Hand) -> None:
    hand.submit()

    assert "the-key" not in json.dumps(hand.stand.control("GET", "calls"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("settings", {"resize": 1}),
        ("settings", {"folder": "/"}),
        ("settings", {"resize_s": "1"}),
        ("settings", {"capacity": "1"}),
        ("faults", [{"kind": "fire"}]),
    ],
)
def test_a_mistake_in_a_control_request_is_said(hand: Hand, path: str, value: Any) -> None:
    with pytest.raises(AssertionError, match="message"):
        hand.stand.control("PUT", path, value)
