"""Pools with an identity, by which jobs reach their blobs and secrets: nothing is signed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.options import BatchOptions
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.identity import Identity
from runspec_emulators.azure_services.vault import Vault
from runspec_emulators.frame.listening import Certificate
from runspec_jobs.cli.app import run
from runspec_jobs.provider import AlreadyExists, Conflict, Request, Scope, Step
from tests.support.azure.emulated_account import Capture, calls, said, write
from tests.support.azure.login import (
    IDENTITIES,
    JOB,
    SECRET,
    TEXT,
    account as account,  # a fixture
    change,
    identity as identity,  # a fixture
    managed,
)
from tests.support.profiles import own_profile

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.matrix), 2])
def test_a_job_reaches_its_blobs_by_the_identity_of_its_machines_and_has_no_signature(
    nodes: int, account: AzureBatch, identity: Identity, tmp_path: Path, capsys: Capture
) -> None:
    managed(account)
    Path("code").mkdir()
    Path("code/words").write_text("hello\n")
    write(TEXT, **JOB, cluster={"nodes": nodes})

    found = said(capsys, "apply", "job.yaml")
    account.world.jobs[found["run"]].tasks["task-00000"].attempts[0].nodes[0].pool.nodes.clear()
    run(["logs", found["run"]])
    printed = capsys.readouterr().out
    run(["fetch", found["run"], "out"])

    assert (found["state"], printed.count("hello\n")) == ("succeeded", nodes)
    assert [p.read_text() for p in sorted((tmp_path / "out").rglob("weights"))] == [
        "hello\n"
    ] * nodes
    bodies = json.dumps([c["body"] for c in account.control("GET", "calls")])
    assert "sig=" not in bodies
    asked = {(one.resource, one.identity) for one in identity.asked if one.identity}
    assert asked == {("https://storage.azure.com/", f"{IDENTITIES}jobs".lower())}
    (pool,) = account.world.pools.values()
    assert pool.identities == [IDENTITIES + "jobs"]
    assert [run(["destroy", found["run"]]), run(["destroy", "--site"])] == [0, 0]
    assert dict(account.world.pools) == {}


def test_a_pool_with_an_identity_is_shared_and_found_by_gc(
    account: AzureBatch, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    managed(account)
    write("echo hello")
    said(capsys, "apply", "job.yaml")
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "other"))
    said(capsys, "apply", "job.yaml")
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "nobody"))

    shared = dict(account.world.pools)
    code = run(["gc", "azure-batch", "--yes"])

    assert (len(shared), code) == (1, 0), capsys.readouterr().err
    assert dict(account.world.pools) == {}


@pytest.mark.parametrize(
    "kind",
    [
        "reset-after",
        pytest.param("error-after", marks=pytest.mark.matrix),
        pytest.param("truncated", marks=pytest.mark.matrix),
        "reset-before",
    ],
)
def test_a_pool_whose_making_went_unanswered_is_looked_for_and_made_once(
    kind: str, account: AzureBatch, capsys: Capture
) -> None:
    managed(account)
    write("echo hello")
    account.control("PUT", "faults", [{"operation": "Pool_Create", "kind": kind, "times": 1}])

    codes = [run(["apply", "job.yaml"])]
    if codes == [75]:
        codes.append(run(["apply", "job.yaml"]))

    assert codes[-1] == 0, capsys.readouterr().err
    # An error after which it is unknown whether the pool was made is answered by asking again, if no pool is there.
    carried_out = ("ok", "reset-after", "error-after", "truncated")
    made = [c["outcome"] for c in calls(account, "Pool_Create") if c["outcome"] in carried_out]
    assert len(made) == 1
    assert len(account.world.pools) == 1


def test_a_pool_by_our_name_with_another_identity_is_a_conflict(account: AzureBatch) -> None:
    managed(account)
    known = json.loads(own_profile().read_text())["providers"]["azure-batch"]
    client = AzureClient(BatchOptions.model_validate(known))
    image = {"publisher": "a", "offer": "b", "sku": "c", "version": "latest"}
    machine = {"imageReference": image, "nodeAgentSkuId": "batch.node.ubuntu 22.04"}
    path = {"resourceGroupName": "rehearsal", "accountName": account.account, "poolName": "p"}

    def step(name: str, size: str = "Standard_D2s_v5") -> Step:
        own = {"type": "UserAssigned", "userAssignedIdentities": {IDENTITIES + name: {}}}
        there = {
            "vmSize": size,
            "deploymentConfiguration": {"virtualMachineConfiguration": machine},
        }
        body = {"identity": own, "properties": there}
        do = Request("arm", "Pool_Create", {"path": path, "body": body})
        return Step("pool", "make a pool", Scope.SITE, do)

    client.call(step("jobs").do)

    with pytest.raises(AlreadyExists):  # the engine looks for it then
        client.call(step("JOBS").do)
    assert client.find(step("JOBS")) == {"id": "p"}
    with pytest.raises(Conflict, match="with a different identity"):
        client.find(step("others"))
    with pytest.raises(Conflict, match="with a different vmSize"):
        client.find(step("jobs", "Standard_D4s_v5"))


@pytest.mark.parametrize("mode", ["BatchService", "UserSubscription"])
def test_a_job_on_spot_machines_runs_in_both_modes_of_accounts(
    mode: str, account: AzureBatch, capsys: Capture
) -> None:
    managed(account)
    account.control("PUT", "settings", {"pool_allocation": mode})
    write("echo hello", cluster={"capacity": "spot"})

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded"


def test_an_identity_that_the_pool_has_not_ends_the_job_and_is_said(
    account: AzureBatch, capsys: Capture
) -> None:
    managed(account)
    write("echo hello")
    said(capsys, "apply", "job.yaml")
    (pool,) = account.world.pools
    change(pool=pool, identity=IDENTITIES + "others")
    write("echo hello", name="second")

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "failed"
    assert "identity" in said(capsys, "status", found["run"])["reason"].lower()


def test_a_secret_of_a_vault_reaches_the_program_and_no_service(
    account: AzureBatch, identity: Identity, certificate: Certificate, capsys: Capture
) -> None:
    managed(account)
    with Vault({"hf": SECRET}, identity.tokens, [IDENTITIES + "jobs"], certificate) as vault:
        change(secrets={"hf": f"azure-kv:{vault.url}/secrets/hf"})
        write(
            f'test "$HF" = "{SECRET}"; test -z "$RUNSPEC_VAULT$RUNSPEC_IDENTITY"; echo good',
            secrets={"HF": "hf"},
        )

        found = said(capsys, "apply", "job.yaml")

    run(["logs", found["run"]])
    assert (found["state"], capsys.readouterr().out) == ("succeeded", "good\n")
    sent = json.dumps([c["body"] for c in account.control("GET", "calls")])
    assert SECRET not in sent
    assert f"{vault.url}/secrets/hf" in sent


def test_a_rehearsal_asks_neither_the_account_nor_the_vault_of_the_profile(
    account: AzureBatch, identity: Identity, capsys: Capture
) -> None:
    managed(account)
    change(secrets={"hf": "azure-kv:https://v.vault.azure.net/secrets/hf"})
    write('test -n "$HF"', secrets={"HF": "hf"})

    code = run(["rehearse", "job.yaml"])

    assert (code, calls(account), identity.asked) == (0, [], []), capsys.readouterr().err
