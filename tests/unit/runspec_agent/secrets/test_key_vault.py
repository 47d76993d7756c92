"""Secrets of a vault: got by the job by its identity, put into its variables, and in no message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from runspec_agent.base import boot
from runspec_agent.base.job_env import Failure
from runspec_agent.store import key_vault
from runspec_agent.store.base import Bucket
from runspec_agent.store.managed_identity import REFUSED
from runspec_emulators.azure_services.identity import Identity
from runspec_emulators.azure_services.vault import Vault
from runspec_emulators.frame.handler import Reply
from tests.support import certificates

pytestmark = pytest.mark.process

OURS, OTHER = "/subscriptions/s/ours", "/subscriptions/s/other"
SECRET = "größer than = a 'quote'"


@pytest.fixture
def identity() -> Iterator[Identity]:
    with Identity() as found:
        yield found


@pytest.fixture
def there(identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vault]:
    certificate = certificates.made(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.authority))
    monkeypatch.setattr(boot, "tls_contexts", [])  # a process reads it once
    known = {"hf": SECRET, "nul": "a\0b"}
    with Vault(known, identity.tokens, [OURS], certificate) as found:
        yield found


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which nobody waits for."""
    found: list[float] = []
    monkeypatch.setattr(key_vault, "time", SimpleNamespace(sleep=found.append))
    return found


def job(there: Vault, identity: Identity, secret: str, who: str = OURS) -> dict[str, str]:
    listed = json.dumps({"HF_TOKEN": f"{there.url}/secrets/{secret}"})
    env = {
        key_vault.LISTED: listed,
        key_vault.AUDIENCE: "https://vault.azure.net",
        "RUNSPEC_IDENTITY": who,
        "OTHER": "1",
    }
    return {**env, **identity.machine([OURS, OTHER])}


def test_a_secret_becomes_the_variable_and_the_list_is_gone(
    there: Vault, identity: Identity
) -> None:
    env = job(there, identity, "hf")

    key_vault.fill(Bucket(), env)

    assert (env["HF_TOKEN"], env["OTHER"], key_vault.LISTED in env) == (SECRET, "1", False)
    assert [one.resource for one in identity.asked] == ["https://vault.azure.net"]


def test_nobody_is_asked_where_no_secret_is_listed() -> None:
    env = {"OTHER": "1"}

    key_vault.fill(Bucket(), env)

    assert env == {"OTHER": "1"}


@pytest.mark.parametrize(
    ("secret", "who", "code", "why"),
    [
        ("none", OURS, REFUSED, "404"),
        ("hf", OTHER, REFUSED, "403"),
        ("nul", OURS, 2, "contains a NUL"),
    ],
)
def test_a_secret_that_is_not_given_ends_the_job_in_a_line_that_names_the_variable(
    there: Vault,
    identity: Identity,
    pauses: list[float],
    secret: str,
    who: str,
    code: int,
    why: str,
) -> None:
    with pytest.raises(Failure, match=f"HF_TOKEN.*{why}") as failure:
        key_vault.fill(Bucket(), job(there, identity, secret, who))

    assert (failure.value.code, pauses) == (code, [])


def test_a_vault_that_is_busy_is_asked_again(
    there: Vault, identity: Identity, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    reply, refused = there.reply, [503, 429]
    monkeypatch.setattr(
        there, "reply", lambda *given: Reply(refused.pop(), b"{}") if refused else reply(*given)
    )
    env = job(there, identity, "hf")

    key_vault.fill(Bucket(), env)

    assert (env["HF_TOKEN"], pauses) == (SECRET, [0.5, 1.0])
