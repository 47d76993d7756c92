"""The Resource Manager of the rehearsal: it takes tokens alone, and pools as its models have them."""

from __future__ import annotations

import copy
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.azure_batch import AzureBatch
from runspec_emulators.azure_services.identity import Identity

ACCOUNT = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rehearsal/providers/"
    "Microsoft.Batch/batchAccounts/rehearsal"
)
OURS = (
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/"
    "userAssignedIdentities/ours"
)
POOL: dict[str, Any] = {
    "identity": {"type": "UserAssigned", "userAssignedIdentities": {OURS: {}}},
    "properties": {
        "vmSize": "Standard_D2s_v5",
        "deploymentConfiguration": {
            "virtualMachineConfiguration": {
                "imageReference": {"publisher": "a", "offer": "b", "sku": "c"},
                "nodeAgentSkuId": "batch.node.ubuntu 22.04",
                "containerConfiguration": {"type": "DockerCompatible"},
            }
        },
        "scaleSettings": {"fixedScale": {"targetDedicatedNodes": 1}},
        "interNodeCommunication": "Enabled",
        "taskSchedulingPolicy": {"nodeFillType": "Pack"},
        "taskSlotsPerNode": 1,
    },
}
BOTH = {"fixedScale": {}, "autoScale": {"formula": "a=1;"}}
MANAGER, BATCH = "https://management.azure.com", "https://batch.core.windows.net/"


class Stand:
    def __init__(self, batch: AzureBatch, identity: Identity) -> None:
        self.batch, self.identity = batch, identity

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        audience: str = MANAGER,
        version: str = "2025-06-01",
        **headers: str,
    ) -> tuple[int, Any]:
        token = self.identity.tokens.give(audience)[0]
        url = f"{self.batch.url}{path}?api-version={version}"
        data = None if body is None else json.dumps(body).encode()
        own = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, data, own, method=method), timeout=60
            ) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["error"]["code"]

    def make(self, body: Any, **more: Any) -> tuple[int, Any]:
        return self.ask("PUT", f"{ACCOUNT}/pools/p", body, **more)


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with Identity() as identity, AzureBatch(tmp_path, identity=identity) as batch:
        yield Stand(batch, identity)


def changed(*path: str, **fields: Any) -> Any:
    found = copy.deepcopy(POOL)
    at = found
    for key in path:
        at = at[key]
    at |= fields
    return found


def test_a_pool_is_made_with_its_identity_as_the_data_plane_shows_it(stand: Stand) -> None:
    status, answer = stand.make(POOL)

    token = stand.identity.tokens.give(BATCH)[0]
    url = f"{stand.batch.url}/pools/p?api-version=2025-06-01"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as found:
        shown = json.load(found)
    assert (status, answer["id"]) == (200, f"{ACCOUNT}/pools/p")
    assert shown["identity"] == {
        "type": "UserAssigned",
        "userAssignedIdentities": [{"resourceId": OURS}],
    }
    assert shown["enableInterNodeCommunication"] is True
    assert shown["taskSchedulingPolicy"] == {"nodeFillType": "pack"}
    assert shown["targetDedicatedNodes"] == 1
    machine = shown["virtualMachineConfiguration"]
    assert machine["nodeAgentSKUId"] == "batch.node.ubuntu 22.04"
    assert machine["containerConfiguration"] == {"type": "dockerCompatible"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (changed("properties", vmsize="a"), "InvalidRequestContent"),
        (changed("properties", currentDedicatedNodes=1), "InvalidRequestContent"),
        (changed("properties", taskSchedulingPolicy={"nodeFillType": "pack"}), "InvalidRequestContent"),
        (changed("properties", userAccounts=[]), "InvalidRequestContent"),
        (changed("properties", scaleSettings=BOTH), "InvalidRequestContent"),
        (changed("identity", userAssignedIdentities={"/subscriptions/s/i": {}}), "LinkedInvalidPropertyId"),
        (changed("identity", userAssignedIdentities={}), "InvalidRequestContent"),
    ],
)  # fmt: skip
def test_an_invalid_pool_body_is_refused(stand: Stand, body: Any, code: str) -> None:
    assert stand.make(body) == (400, code)
    assert stand.batch.world.pools == {}


def test_a_pool_that_is_there_is_not_made_again(stand: Stand) -> None:
    none = {"If-None-Match": "*"}

    assert stand.make(POOL, **none)[0] == 200
    assert stand.make(POOL, **none) == (412, "PreconditionFailed")


def test_nobody_comes_in_but_by_a_token_for_the_resource_manager(stand: Stand) -> None:
    assert stand.ask("GET", ACCOUNT, audience=BATCH) == (401, "InvalidAuthenticationToken")
    assert stand.ask("GET", ACCOUNT, Authorization="SharedKey a:b")[0] == 401
    stand.identity.tokens.lasts_s = -1
    assert stand.ask("GET", ACCOUNT)[0] == 401


def test_a_path_outside_the_account_is_not_found(stand: Stand) -> None:
    group = ACCOUNT.replace("/rehearsal/", "/other/")

    assert stand.ask("GET", group) == (404, "ResourceGroupNotFound")
    assert stand.ask("GET", f"{ACCOUNT}x") == (404, "ResourceNotFound")
    assert stand.ask("GET", f"{ACCOUNT}/listKeys") == (404, "InvalidResourceType")
    assert stand.ask("GET", ACCOUNT, version="2019-08-01") == (400, "NoRegisteredProviderFound")
    assert stand.ask("GET", ACCOUNT)[1]["properties"]["poolAllocationMode"] == "BatchService"


@pytest.mark.parametrize(("mode", "shown"), [("BatchService", True), ("UserSubscription", False)])
def test_an_account_shows_its_quotas_if_it_has_any(mode: Any, shown: bool, tmp_path: Path) -> None:
    """ "For accounts with PoolAllocationMode set to UserSubscription, quota is managed on the subscription"."""
    with (
        Identity() as identity,
        AzureBatch(tmp_path, identity=identity, pool_allocation=mode) as batch,
    ):
        _, found = Stand(batch, identity).ask("GET", ACCOUNT)

    properties = found["properties"]
    assert properties["poolAllocationMode"] == mode
    assert ("lowPriorityCoreQuota" in properties, "dedicatedCoreQuota" in properties) == (
        shown,
        shown,
    )


@pytest.mark.parametrize("mode", ["BatchService", "UserSubscription"])
def test_low_priority_nodes_are_made_in_both_modes_of_accounts(mode: Any, tmp_path: Path) -> None:
    """ "Low-priority properties [...] automatically translate into Spot-based compute node allocations".

    https://github.com/Azure/Batch/issues/196
    """
    spot = changed("properties", scaleSettings={"fixedScale": {"targetLowPriorityNodes": 1}})
    with (
        Identity() as identity,
        AzureBatch(tmp_path, identity=identity, pool_allocation=mode) as batch,
    ):
        Stand(batch, identity).make(spot)
        (pool,) = batch.world.pools.values()
        end = time.monotonic() + 60
        while not pool.count(dedicated=False) and time.monotonic() < end:
            time.sleep(0.02)

        assert pool.count(dedicated=False) == 1
