"""Secrets of the caller's shell on Azure Batch, rehearsed: the key vault of the profile has them for one run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_azure.session.key_vault import KeyVault
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.identity import Identity
from runspec_emulators.azure_services.vault import Vault
from runspec_emulators.frame.listening import Certificate
from runspec_jobs.cli.app import run
from runspec_jobs.provider import NoAnswer
from tests.support.azure.emulated_account import Capture, said, write
from tests.support.azure.login import (
    IDENTITIES,
    account as account,  # a fixture
    change,
    identity as identity,  # a fixture
    managed,
)

pytestmark = pytest.mark.slow
VALUE = "s3cret-it's"
SECRETS = {"secrets": {"HF_TOKEN": {"from": "caller"}}}
PRINT = 'echo "${#HF_TOKEN} ${HF_TOKEN%%-*}"'


@pytest.fixture
def vault(
    account: AzureBatch,
    identity: Identity,
    certificate: Certificate,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Vault]:
    """Give the vault of the profile, which a login may change and the machines may read."""
    managed(account)
    monkeypatch.setenv("HF_TOKEN", VALUE)
    who, login = [IDENTITIES + "jobs"], [identity.tokens.person]
    with Vault({"theirs": "x"}, identity.tokens, who, certificate, writers=login) as found:
        change(vault=found.url)
        yield found


def kept(vault: Vault) -> list[str]:
    """Return the names of secrets, deleted ones too, but that of somebody else."""
    return [one.name for one in vault.secrets.values() if one.name != "theirs"]


def logged(name: str, capsys: Capture) -> str:
    capsys.readouterr()
    assert run(["logs", name]) == 0
    return capsys.readouterr().out


def test_a_run_has_its_secret_in_the_vault_and_nothing_else_has_its_value(
    account: AzureBatch, vault: Vault, tmp_path: Path, capsys: Capture
) -> None:
    write(PRINT, **SECRETS)

    found = said(capsys, "apply", "job.yaml")

    assert logged(found["run"], capsys) == f"{len(VALUE)} s3cret\n"
    assert kept(vault) == [f"runspec-{found['run']}-HF-TOKEN"]
    assert VALUE not in json.dumps(account.control("GET", "calls"))
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert not [p for p in written if VALUE.encode() in p.read_bytes()]
    assert [run(["destroy", found["run"]]), run(["destroy", "--shared", "--yes"])] == [0, 0]
    assert kept(vault) == []


def test_a_vault_with_purge_protection_keeps_a_deleted_secret(
    vault: Vault, capsys: Capture
) -> None:
    vault.purge_protection = True
    write(PRINT, **SECRETS)
    found = said(capsys, "apply", "job.yaml")

    assert run(["destroy", found["run"]]) == 0

    assert [one.deleted for one in vault.secrets.values()] == [False, True]


def test_an_apply_that_goes_on_stores_the_value_of_now(
    vault: Vault, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the value before was stored cannot be known: the answer is lost."""
    store = KeyVault.set

    def lost(self: KeyVault, *given: object) -> None:
        store(self, *given)  # type: ignore[arg-type]
        raise NoAnswer("the reply was cut off")

    write('echo "$HF_TOKEN"', **SECRETS)
    with monkeypatch.context() as patch:
        patch.setattr(KeyVault, "set", lost)
        assert run(["apply", "job.yaml"]) == 75
    monkeypatch.setenv("HF_TOKEN", "another")

    found = said(capsys, "apply", "job.yaml")

    assert logged(found["run"], capsys) == "another\n"
    assert len(kept(vault)) == 1


def test_gc_deletes_secrets_of_runs_without_a_record(
    vault: Vault, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(PRINT, **SECRETS)
    said(capsys, "apply", "job.yaml")
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "nobody"))

    assert run(["gc", "azure-batch", "--yes"]) == 0

    assert list(vault.secrets) == ["theirs"]


def test_gc_purges_a_secret_whose_deletion_was_interrupted(
    vault: Vault, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(PRINT, **SECRETS)
    found = said(capsys, "apply", "job.yaml")
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "nobody"))
    vault.secrets[f"runspec-{found['run']}-hf-token"].deleted = True

    assert run(["gc", "azure-batch", "--yes"]) == 0

    assert list(vault.secrets) == ["theirs"]


def test_another_machine_adopts_the_run_and_deletes_its_secret(
    vault: Vault, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(PRINT, **SECRETS)
    found = said(capsys, "apply", "job.yaml")
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))
    monkeypatch.delenv("HF_TOKEN")

    assert run(["adopt", "azure-batch", found["run"]]) == 0
    assert run(["destroy", found["run"]]) == 0

    assert kept(vault) == []


def test_a_login_without_rights_in_the_vault_makes_no_job(
    account: AzureBatch, vault: Vault, capsys: Capture
) -> None:
    vault.writers = set()
    write(PRINT, **SECRETS)

    assert run(["apply", "job.yaml"]) == 5

    told = capsys.readouterr().err
    assert "Key Vault Secrets Officer" in told and VALUE not in told
    assert dict(account.world.jobs) == {}


def test_doctor_and_policy_name_the_vault(vault: Vault, capsys: Capture) -> None:
    write(PRINT, **SECRETS)

    assert run(["policy", "job.yaml"]) == 0
    login = capsys.readouterr().out
    assert run(["policy", "job.yaml", "--job"]) == 0
    machines = capsys.readouterr().out
    run(["doctor", "azure-batch"])

    where = f"key vault {vault.url}"
    assert ("Key Vault Secrets Officer" in login, where in login) == (True, True)
    assert ("Key Vault Secrets User" in machines, where in machines) == (True, True)
    assert where in capsys.readouterr().out


def test_a_rehearsal_says_where_secrets_are_instead_of_the_vault(
    vault: Vault, capsys: Capture
) -> None:
    write(PRINT, **SECRETS)

    assert run(["rehearse", "job.yaml"]) == 0

    assert "vault is not rehearsed: secrets are variables of the job" in capsys.readouterr().err
    assert kept(vault) == []
