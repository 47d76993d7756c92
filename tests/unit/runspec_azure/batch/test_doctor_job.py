"""Doctor says whether one job will run on Azure Batch: permissions of the login, and the quotas of its nodes."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from runspec_azure.batch import PROVIDER
from runspec_azure.batch.doctor_job import examine
from runspec_azure.batch.options import BatchOptions
from runspec_azure.discover import Subscription
from runspec_jobs.provider import Facts, Finding, Step
from tests.support.azure import resource_manager
from tests.support.azure.specs import options, spec

pytestmark = pytest.mark.process

KEY = base64.b64encode(b"k" * 32).decode()
OWNER = {"actions": ["*"], "notActions": [], "dataActions": ["*"], "notDataActions": []}
READER = {"actions": ["*/read"], "notActions": [], "dataActions": [], "notDataActions": []}


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[resource_manager.Azure]:
    monkeypatch.setenv("ANY_KEY", KEY)
    with resource_manager.azure() as made:
        made.permissions = [OWNER]
        yield made


def plan_job(azure: resource_manager.Azure, fields: Any) -> Sequence[Step]:
    facts = Facts(options(**read_settings(azure, vm_size="Standard_D2ds_v5")))
    return PROVIDER.plan(spec(**fields), "run-1", facts)


def read_settings(azure: resource_manager.Azure, **more: Any) -> dict[str, Any]:
    return {
        "subscription": resource_manager.SUBSCRIPTION,
        "batch_url": azure.url,
        "batch_account": "jobs",
        "batch_key": "env:ANY_KEY",
        "storage_key": "env:ANY_KEY",
        "blob_url": f"{azure.url}/jobs",
        **more,
    }


def found(azure: resource_manager.Azure, fields: Any = None, **more: Any) -> list[Finding]:
    """Return the findings about the permissions and quotas of a job, whose store is asked with a key."""
    given: BatchOptions = options(**read_settings(azure, **more))
    subscription = Subscription(
        given,
        resource_manager.Login(),
        base_url=azure.url,
        authentication_policy=resource_manager.OverHttp(),
        retry_total=0,
    )
    wanted = spec(**(fields or {}))
    # The rights of the login are checked as for an account without keys; the requests here still use keys.
    facts = Facts(given)
    return list(examine(wanted, facts, PROVIDER.plan(wanted, "run-1", facts), subscription))


IDENTITY = f"{resource_manager.GROUP}/Microsoft.ManagedIdentity/userAssignedIdentities/i"


def rights(azure: resource_manager.Azure) -> list[Finding]:
    all_ = found(azure, identity=IDENTITY)
    return [one for one in all_ if "the login has" in one.what or "of the login" in one.what]


def test_an_owner_has_the_rights_of_each_role(azure: resource_manager.Azure) -> None:
    told = rights(azure)

    assert [one.ok and not one.unknown for one in told] == [True, True]
    assert any("Azure Batch Data Contributor" in one.what for one in told)
    assert any("Managed Identity Operator" in one.what for one in told)


def test_a_reader_is_told_what_is_missing_and_the_role(azure: resource_manager.Azure) -> None:
    azure.permissions = [READER]

    first = rights(azure)[0]

    assert not first.ok
    assert "Microsoft.Batch/batchAccounts/pools/write" in first.what
    assert "Microsoft.Batch/batchAccounts/jobs/read" in first.what  # a data action
    assert "Microsoft.Batch/batchAccounts/pools/read" not in first.what
    assert (
        first.hint == "assign the role, as `runspec policy` prints it: Azure Batch Data Contributor"
    )


def test_actions_in_not_actions_are_not_permitted(azure: resource_manager.Azure) -> None:
    azure.permissions = [{**OWNER, "notActions": ["microsoft.batch/*/pools/write"]}]

    assert rights(azure)[0].what == (
        "the login has no right to Microsoft.Batch/batchAccounts/pools/write"
    )


def test_permissions_that_are_refused_are_unknown(azure: resource_manager.Azure) -> None:
    azure.denied = "Microsoft.Authorization"

    assert [(one.ok, one.unknown) for one in rights(azure)] == [(True, True)] * 2


def quota(azure: resource_manager.Azure, **cluster: Any) -> Finding:
    told = found(azure, {"cluster": cluster}, vm_size="Standard_D2ds_v5")
    (one,) = [f for f in told if "a task needs" in f.what]
    return one


def test_the_quota_of_a_family_is_compared_with_the_nodes_of_a_task(
    azure: resource_manager.Azure,
) -> None:
    for row in azure.usages:
        row["currentValue"], row["limit"] = 0, 4

    assert all(
        quota(azure, cpus=2, nodes=nodes).ok is good for nodes, good in ((2, True), (3, False))
    )


def test_a_quota_that_is_in_use_makes_a_job_wait_and_does_not_stop_it(
    azure: resource_manager.Azure,
) -> None:
    for row in azure.usages:
        row["currentValue"], row["limit"] = 6, 8

    first = quota(azure, cpus=2, nodes=2)

    assert first.ok
    assert first.what.startswith("2 of 8 vCPUs of ")
    assert first.what.endswith(" are free, and a task needs 4: it waits until others end")
    assert not quota(azure, cpus=2, nodes=5).ok


def test_nodes_that_the_pool_of_the_job_has_count_as_free(azure: resource_manager.Azure) -> None:
    for row in azure.usages:
        row["currentValue"], row["limit"] = 8, 8
    fields = {"cluster": {"cpus": 2, "nodes": 2}}
    (pool,) = (
        step.do.params["body"]["id"]
        for step in plan_job(azure, fields)
        if step.do.operation == "Pool_Add"
    )
    azure.pools = {pool: {"id": pool, "state": "active", "currentDedicatedNodes": 3}}

    first = quota(azure, cpus=2, nodes=2)

    assert first.what.startswith("6 of 8 vCPUs of ")
    assert first.what.endswith(" are free, and a task needs 4")


def test_spot_nodes_count_for_the_quota_of_spot(azure: resource_manager.Azure) -> None:
    for row in azure.usages:
        row["currentValue"], row["limit"] = (
            0,
            0 if row["name"]["value"] == "lowPriorityCores" else 99,
        )

    assert not quota(azure, cpus=2, capacity="spot").ok
    assert quota(azure, cpus=2, capacity="spot-then-on-demand").ok


def test_without_a_subscription_rights_and_quotas_are_unknown(
    azure: resource_manager.Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"batch_url": azure.url, "batch_key": "env:ANY_KEY", "storage_key": "env:ANY_KEY"}
    given = options(blob_url=f"{azure.url}/jobs", batch_account="jobs", **settings)
    wanted, facts = spec(), Facts(given)

    last = list(examine(wanted, facts, PROVIDER.plan(wanted, "run-1", facts)))[-1]

    assert (last.ok, last.unknown) == (True, True)
    assert "has no `subscription`" in last.what


def test_a_pool_whose_nodes_do_not_communicate_stops_a_job_of_several_nodes_alone(
    azure: resource_manager.Azure,
) -> None:
    azure.pools = {"p": {"id": "p", "state": "active", "taskSlotsPerNode": 1}}

    def stops(nodes: int) -> list[str]:
        told = found(azure, {"cluster": {"nodes": nodes}}, pool="p")
        return [one.what for one in told if not one.ok]

    assert stops(1) == []
    (what,) = stops(2)
    assert what.startswith("pool p runs only jobs of one node")
