"""An account of Azure that whoever is logged in reaches without a key, over https, on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_azure.batch import emulator, timing
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.azure_services.identity import Identity
from runspec_emulators.frame.listening import Certificate
from tests.support.azure.emulated_account import CONTAINER
from tests.support.profiles import own_profile


@pytest.fixture
def identity() -> Iterator[Identity]:
    with Identity() as found:
        yield found


@pytest.fixture
def account(
    encrypted: Blobs,
    certificate: Certificate,
    identity: Identity,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[AzureBatch]:
    """Give an account, a profile that names no key, and a login."""
    quick = timing.Timing(poll_s=0.2, fresh_s=0.2, slow_s=0.2)
    monkeypatch.setattr(timing, "DEFAULT", quick)
    trust = str(certificate.authority)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, trust)
    for name, value in identity.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    machine = {"RUNSPEC_BELOW": ".", "SSL_CERT_FILE": trust}
    with AzureBatch(
        tmp_path / "account",
        emulator.ACCOUNT,
        certificate=certificate,
        identity=identity,
        machine_env=machine,
    ) as found:
        ways = emulator.ways(found.url, encrypted.url, encrypted.account)
        keys = [key for key in ways if key.endswith("_key")]
        settings = {"container": CONTAINER, **ways, "prefix": tmp_path.name}
        profile({k: v for k, v in settings.items() if k not in keys})
        yield found


def profile(settings: dict[str, Any]) -> None:
    text = json.dumps({"providers": {"azure-batch": settings}})
    own_profile().write_text(text)


def change(**settings: Any) -> None:
    known = json.loads(own_profile().read_text())["providers"]["azure-batch"]
    profile({**known, **settings})


SECRET = "the value of a secret"
JOB: dict[str, Any] = {
    "mounts": [{"name": "code", "source": "./code", "target": "/job/code"}],
    "outputs": [{"name": "model", "path": "/job/model"}],
}
TEXT = "cat ${mounts.code}/words; cat ${mounts.code}/words > ${outputs.model}/weights"


SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
IDENTITIES = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rehearsal/providers/"
    "Microsoft.ManagedIdentity/userAssignedIdentities/"
)


def managed(account: AzureBatch, name: str = "jobs") -> None:
    """Have the profile name an identity, and where pools with one are made."""
    where = {"subscription": SUBSCRIPTION, "resource_group": "rehearsal", "arm_url": account.url}
    change(identity=IDENTITIES + name, **where)
