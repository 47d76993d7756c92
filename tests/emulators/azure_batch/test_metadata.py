"""Machines tell of their end, as Azure's do, before they are taken away."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from runspec_emulators.azure_batch.nodes import metadata
from tests.emulators.azure_batch.stand import Stand, until

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"


def asked(base: str, path: str, **headers: str) -> str:
    request = urllib.request.Request(base + path, headers={"Metadata": "true", **headers})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def machines(stand: Stand) -> list[tuple[Any, str]]:
    """Return two spot nodes, and where each asks for its metadata."""
    stand.pool("spot", targetDedicatedNodes=0, targetLowPriorityNodes=2)
    until(lambda: [n["state"] for n in stand.nodes("spot")] == ["idle", "idle"])
    known = stand.server.world.pools["spot"].nodes
    return [(n, metadata.address(stand.server.world, known[n["id"]])) for n in stand.nodes("spot")]


def test_all_machines_of_a_pool_hear_of_an_end_and_each_knows_its_name(stand: Stand) -> None:
    (first, one), (_, other) = machines(stand)
    assert json.loads(asked(one, EVENTS))["Events"] == []

    stand.server.control("POST", "preempt", {"nodeId": first["id"], "notice_s": 1})

    (event,) = json.loads(asked(other, EVENTS))["Events"]
    assert (event["EventType"], event["EventStatus"]) == ("Preempt", "Scheduled")
    assert event["Resources"] == [asked(one, NAME)] != [asked(other, NAME)]
    until(lambda: json.loads(asked(other, EVENTS))["Events"] == [])
    assert json.loads(asked(other, EVENTS))["DocumentIncarnation"] == 3


def test_an_end_may_be_taken_back(stand: Stand) -> None:
    (first, one), _ = machines(stand)
    stand.server.control("POST", "preempt", {"nodeId": first["id"], "notice_s": 60})

    stand.server.control("POST", "withdraw", {"nodeId": first["id"]})

    assert json.loads(asked(one, EVENTS))["Events"] == []
    assert {n["state"] for n in stand.nodes("spot")} == {"idle"}


@pytest.mark.parametrize(
    "path,headers,status",
    [
        (EVENTS, {"Metadata": "no"}, 400),
        ("/metadata/scheduledevents", {}, 400),
        ("/metadata/scheduledevents?api-version=2020-07-02", {}, 400),
        ("/metadata/other?api-version=2020-07-01", {}, 400),
    ],
)
def test_a_wrong_metadata_request_is_refused_with_its_status(
    stand: Stand, path: str, headers: dict[str, str], status: int
) -> None:
    (_, one), _ = machines(stand)

    with pytest.raises(urllib.error.HTTPError) as refused:
        asked(one, path, **headers)

    refused.value.close()
    assert refused.value.code == status
