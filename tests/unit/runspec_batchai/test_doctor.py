"""Doctor says what will stop a job of Batch AI; it only looks, and says it in the words that azure-batch has."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from runspec_batchai import PROVIDER, resources
from runspec_emulators.batch_ai import BatchAI
from runspec_jobs.provider import Finding
from tests.support.azure import resource_manager
from tests.support.azure.batch_ai_specs import ACCOUNT, facts, spec

pytestmark = pytest.mark.process

KEY = base64.b64encode(b"k" * 32).decode()
NAMES = [machine.name for machine in resources.sizes().machines]
ALL = [resource_manager.sku(name.title(), "a family") for name in NAMES]


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[resource_manager.Azure]:
    monkeypatch.setenv("STORAGE_KEY", KEY)
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", resource_manager.Login)
    with resource_manager.azure() as made:
        made.skus = list(ALL)
        made.usages = [
            resource_manager.usage("Clusters", 5, 20),
            resource_manager.usage("Total Cluster Dedicated Regional vCPUs", 49, 600),
            resource_manager.usage("Total Cluster LowPriority Regional vCPUs", 0, 150),
            resource_manager.usage("Standard NC Family Cluster Dedicated vCPUs", 48, 600),
            resource_manager.usage("Standard NCv3 Family Cluster LowPriority vCPUs", 0, 0),
        ]
        yield made


def said(azure: resource_manager.Azure, **more: Any) -> dict[str, Finding]:
    settings: dict[str, Any] = {
        **ACCOUNT,
        "subscription": resource_manager.SUBSCRIPTION,
        "location": "westeurope",
        "arm_url": azure.url,
        "blob_url": f"{azure.url}/acct",
        **more,
    }
    found = PROVIDER.examine(PROVIDER.options_model.model_validate(settings))
    return {finding.what: finding for finding in found}


def bad(found: dict[str, Finding]) -> list[str]:
    assert all(f.hint for f in found.values() if not f.ok), "no way out"
    return [what for what, finding in found.items() if not finding.ok]


def test_a_subscription_that_is_as_it_should_be_is_found_good(
    azure: resource_manager.Azure,
) -> None:
    found = said(azure)

    assert bad(found) == []
    assert list(found) == [
        f"{azure.url} serves subscription {resource_manager.SUBSCRIPTION} in westeurope",
        "container jobs of storage account acct",
        "15 of 20 clusters are free",
        "551 of 600 dedicated vCPUs are free",
        "150 of 150 low-priority vCPUs are free",
        "552 of 600 dedicated vCPUs of Standard NC Family are free",
        "0 of 0 low-priority vCPUs of Standard NCv3 Family are free",
        f"westeurope offers all {len(ALL)} VM sizes",
    ]


def test_doctor_sends_only_get_requests(azure: resource_manager.Azure) -> None:
    """The server answers GET alone; anything else would be refused, and found."""
    assert bad(said(azure)) == []
    assert len(azure.calls) <= 4


@pytest.mark.parametrize("url", [None, "https://management.azure.com"])
def test_the_end_of_the_service_is_all_that_is_said_of_the_public_endpoint(
    azure: resource_manager.Azure, url: str | None
) -> None:
    (one,) = said(azure, arm_url=url, subscription=None).values()

    assert not one.ok and "31 March 2019" in one.what and "azure-batch" in one.what
    assert azure.calls == []


def test_doctor_names_missing_settings_without_a_request(
    azure: resource_manager.Azure,
) -> None:
    found = said(azure, location=None, container=None, file_share=None, ssh_public_key=None)

    names = ("location", "container", "file_share", "ssh_public_key")
    assert bad(found) == [f"the profile has no `{name}`" for name in names]
    assert azure.calls == []


def test_an_endpoint_that_cannot_be_reached_is_said(azure: resource_manager.Azure) -> None:
    found = said(azure, arm_url="http://127.0.0.1:9")

    (first,) = bad(found)
    assert "cannot reach" in first
    assert "arm_url" in str(found[first].hint)


def test_rights_that_are_missing_are_said_by_the_settings_of_this_provider(
    azure: resource_manager.Azure,
) -> None:
    azure.denied = "usages"

    found = said(azure)

    (first,) = bad(found)
    assert "no right to read" in first
    assert "azure-batch-ai" in str(found[first].hint) and "batch_key" not in str(found[first].hint)


def test_a_container_that_is_not_there_is_said(azure: resource_manager.Azure) -> None:
    azure.container = False

    found = said(azure)

    (first,) = bad(found)
    assert "there is no container" in first
    assert "az storage container create" in str(found[first].hint)


def test_a_key_that_is_not_there_is_said(
    azure: resource_manager.Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STORAGE_KEY")

    found = said(azure)

    assert "secrets: {storage-key: env:STORAGE_KEY}" in str(found[bad(found)[0]].hint)


def test_a_quota_that_is_used_up_is_said_where_nothing_else_is_left(
    azure: resource_manager.Azure,
) -> None:
    azure.usages = [
        resource_manager.usage("Clusters", 20, 20),
        resource_manager.usage("Total Cluster Dedicated Regional vCPUs", 600, 600),
        resource_manager.usage("Total Cluster LowPriority Regional vCPUs", 0, 0),
    ]

    assert bad(said(azure)) == [
        "0 of 20 clusters are free",
        "0 of 600 dedicated vCPUs are free",
        "0 of 0 low-priority vCPUs are free",
    ]


def test_the_quota_of_the_machine_that_the_profile_names_counts(
    azure: resource_manager.Azure,
) -> None:
    azure.usages.append(
        resource_manager.usage("Standard NCv3 Family Cluster Dedicated vCPUs", 0, 5)
    )

    found = said(azure, vm_size="Standard_NC6s_v3")

    assert bad(found) == [
        "5 of 5 dedicated vCPUs of Standard NCv3 Family are free",
        "0 of 0 low-priority vCPUs of Standard NCv3 Family are free",
    ]


def test_a_machine_that_the_region_does_not_have_is_said_where_the_profile_names_it(
    azure: resource_manager.Azure,
) -> None:
    azure.skus = [resource_manager.sku("Standard_NC6", "f", closed="Location")]

    assert bad(said(azure, vm_size="standard_nc12")) == ["not offered in westeurope: STANDARD_NC12"]
    assert bad(said(azure, vm_size="standard_nc6")) == [
        "not available to this subscription in westeurope: STANDARD_NC6 (NotAvailableForSubscription)"
    ]
    assert bad(said(azure)) == []


def test_a_cluster_of_the_profile_that_is_not_there_is_said(azure: resource_manager.Azure) -> None:
    assert bad(said(azure, cluster="mine")) == ["there is no cluster mine in the workspace runspec"]


def test_an_endpoint_that_knows_of_no_sizes_is_good_enough(
    azure: resource_manager.Azure, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the stand-in: sizes of machines are another service's."""
    monkeypatch.undo()
    monkeypatch.setenv("STORAGE_KEY", KEY)
    with BatchAI(tmp_path / "cloud") as stand:
        for name, value in stand.env.items():
            monkeypatch.setenv(name, value)
        where = {"arm_url": stand.url, "subscription": ACCOUNT["subscription"]}

        found = said(azure, **where)

    assert bad(found) == []
    assert list(found)[-1] == "the endpoint does not list VM sizes"


def said_of_job(azure: resource_manager.Azure, nodes: int = 2, **more: Any) -> dict[str, Finding]:
    job = spec(cluster={"nodes": nodes})
    settings: dict[str, Any] = {
        "subscription": resource_manager.SUBSCRIPTION,
        "location": "westeurope",
        "arm_url": azure.url,
        "blob_url": f"{azure.url}/acct",
        "vm_size": "STANDARD_NC6",
        **more,
    }
    return {one.what: one for one in PROVIDER.examine_job(job, facts(job, **settings), ())}


def unknown(found: dict[str, Finding]) -> list[str]:
    return [what for what, finding in found.items() if finding.unknown]


SHARE = "doctor cannot check the share logs of storage account acct"


def test_the_quotas_are_compared_with_the_cluster_of_the_job(
    azure: resource_manager.Azure,
) -> None:
    found = said_of_job(azure)

    assert (bad(found), unknown(found)) == ([], [SHARE])
    assert "there is no workspace runspec yet: apply makes it" in found
    assert "the quotas permit the cluster of the job: 2 x STANDARD_NC6" in found
    (few,) = bad(said_of_job(azure, nodes=100))
    assert "600 more are needed" in few


def test_quotas_that_nobody_names_are_unknown(azure: resource_manager.Azure) -> None:
    del azure.usages[0]

    assert unknown(said_of_job(azure)) == [
        SHARE,
        "doctor cannot check quotas: the service does not name Clusters",
    ]
    azure.denied = "usages"
    assert "doctor cannot check quotas: they cannot be read" in unknown(said_of_job(azure))


@pytest.mark.parametrize(
    ("scale", "ok", "is_unknown"),
    [
        ({"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 2}}, True, False),
        ({"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 1}}, False, False),
        ({"manual": {"targetNodeCount": 1}}, False, False),
        (None, True, True),
    ],
)
def test_a_cluster_that_cannot_grow_to_the_nodes_of_the_job_is_said(
    azure: resource_manager.Azure,
    monkeypatch: pytest.MonkeyPatch,
    scale: dict[str, Any] | None,
    ok: bool,
    is_unknown: bool,
) -> None:
    cluster = {"vmSize": "STANDARD_NC6", "vmPriority": "dedicated", "scaleSettings": scale}
    answer = azure.answer

    def with_cluster(path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path.endswith("/clusters/mine"):
            return 200, {"name": "mine", "properties": cluster}
        return answer(path, query)

    monkeypatch.setattr(azure, "answer", with_cluster)

    found = said_of_job(azure, cluster="mine")

    (one,) = [finding for what, finding in found.items() if "nodes" in what]
    assert (one.ok, one.unknown) == (ok, is_unknown)


def test_a_workspace_that_may_not_be_read_is_said(azure: resource_manager.Azure) -> None:
    azure.denied = "/workspaces/"

    found = said_of_job(azure)

    assert any("no right to read" in what for what in bad(found))
