"""The roles that a plan on Azure Batch needs: as few as its keys and its identity leave."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_azure.batch import PROVIDER
from runspec_jobs.provider import Facts, Spec
from tests.support.azure.specs import IDENTITY, options, spec


def rights(wanted: Spec | None = None, *, of_job: bool = False, **profile: Any) -> dict[str, str]:
    """Give what each role is on."""
    facts = Facts(options(**profile))
    steps = PROVIDER.plan(wanted or spec(), "n-abc123", facts)
    found = PROVIDER.policy(steps, facts.options, of_job=of_job)
    return {right["role"]: right["on"] for right in found["roles"]}


def test_a_profile_with_both_keys_needs_no_role() -> None:
    assert rights(batch_key="env:BATCH_KEY") == {}


def test_a_login_that_signs_needs_a_right_on_the_whole_storage_account() -> None:
    assert rights(storage_key=None) == {
        "Azure Batch Data Contributor": "Batch account jobs",
        "Storage Blob Data Contributor": "container jobs of storage account jobs",
        "Storage Blob Delegator": "storage account jobs",
    }


def test_pools_with_an_identity_need_a_login_beside_keys() -> None:
    """The Resource Manager takes no key."""
    where: dict[str, Any] = {"subscription": "s", "resource_group": "g"}

    found = rights(batch_key="env:BATCH_KEY", identity=IDENTITY, **where)

    account = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Batch/batchAccounts/jobs"
    assert found == {
        "Azure Batch Data Contributor": account,
        "Managed Identity Operator": IDENTITY,
        "Reader": "/subscriptions/s",
    }


def test_a_pool_that_is_there_has_its_identity_already() -> None:
    assert "Managed Identity Operator" not in rights(identity=IDENTITY, pool="mine")


def test_a_job_with_a_signature_needs_no_role() -> None:
    assert rights(of_job=True) == {}


def condition(**profile: Any) -> str:
    facts = Facts(options(identity=IDENTITY, **profile))
    steps = PROVIDER.plan(spec(), "n-abc123", facts)
    first, *_ = PROVIDER.policy(steps, facts.options, of_job=True)["roles"]
    return str(first["condition"])


@pytest.mark.parametrize(
    ("prefix", "path"),
    [("runspec", "runspec"), ("a/b", "a/b"), ("it's", "it?s"), ("a*b", r"a\*b"), ("a(b)", "a(b)")],
)
def test_an_identity_deletes_outputs_of_runs_alone(prefix: str, path: str) -> None:
    blobs = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"

    found = condition(prefix=prefix)

    of_others = f"(!(ActionMatches{{'{blobs}/delete'}}))"
    of_outputs = f"(@Resource[{blobs}:path] StringLike '{path}/runs/*/outputs/*')"
    assert found == f"({of_others} OR {of_outputs})"


def test_the_role_of_a_login_has_no_condition() -> None:
    """It takes whole runs away."""
    facts = Facts(options(storage_key=None, identity=IDENTITY))
    steps = PROVIDER.plan(spec(), "n-abc123", facts)

    found = PROVIDER.policy(steps, facts.options, of_job=False)["roles"]

    assert all(set(right) == {"role", "on", "why"} for right in found)


def test_an_identity_reads_blobs_images_and_the_secrets_of_the_spec_alone() -> None:
    image = "mine.azurecr.io/a:1"
    wanted = spec(secrets={"TOKEN": "hf"}, container={"image": image})
    vault = "https://v.vault.azure.net/secrets"
    secrets = {"hf": f"azure-kv:{vault}/hf", "other": f"azure-kv:{vault}/other"}

    found = rights(
        wanted,
        of_job=True,
        identity=IDENTITY,
        registry="mine.azurecr.io",
        secrets=secrets,
        subscription="s",
        resource_group="g",
    )

    assert found == {
        "Storage Blob Data Contributor": "container jobs of storage account jobs",
        "Key Vault Secrets User": f"{vault}/hf",
        "AcrPull": "registry mine.azurecr.io",
    }


def test_a_container_of_another_owner_is_read_by_the_identity_of_the_job() -> None:
    wanted = spec(mounts=[{"name": "a", "source": "az://lab/data/x", "target": "/a"}])

    found = rights(wanted, of_job=True, identity=IDENTITY)

    assert found["Storage Blob Data Reader"] == "container data of storage account lab"


def test_a_container_that_an_output_goes_to_is_written_by_the_identity_of_the_job() -> None:
    """Beside the container of the profile, for which it has the same role."""
    target = {"name": "o", "path": "/o", "target": "az://lab/results"}
    facts = Facts(options(identity=IDENTITY))
    steps = PROVIDER.plan(spec(outputs=[target]), "n-abc123", facts)

    roles = PROVIDER.policy(steps, facts.options, of_job=True)["roles"]

    assert "container results of storage account lab" in [right["on"] for right in roles]
