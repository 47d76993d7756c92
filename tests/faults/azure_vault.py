"""A rehearsed account of Azure Batch whose jobs read their secret in a key vault, with an identity of the machines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from runspec_emulators.azure_services.identity import Identity
from runspec_emulators.azure_services.vault import Vault
from tests.faults.azure import MACHINE, SPEC, AzureCloud
from tests.support.azure.login import IDENTITIES, SUBSCRIPTION

TRUST = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")  # variables of this process


@dataclass
class VaultCloud(AzureCloud):
    """A world with a vault of its own. Its blobs are reached over https, because Azurite takes no tokens over http."""

    has_purge_protection: bool = False

    sdk: ClassVar[str] = "azure_vault"
    text: ClassVar[str] = SPEC.replace("  {last}", '  [ "${{#TOKEN}}" = 24 ] || exit 9\n  {last}')
    sent_once: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **AzureCloud.sent_once,
        "PUT vault /secrets/runspec-*-TOKEN": ("call Secret_Set",),
        "DELETE vault /secrets/runspec-*-TOKEN": ("call Secret_Delete",),
    }

    def open(self) -> None:
        super().open()
        tokens, who = self.identity.tokens, IDENTITIES + "jobs"
        self.vault = Vault(
            {},
            tokens,
            [who],
            None,
            writers=[tokens.person],
            purge_protection=self.has_purge_protection,
            deletion_looks=1 if self.has_purge_protection else 2,
        )

    def open_account(self, *_: Any) -> Any:
        self.identity = Identity()
        machine = {**MACHINE, "SSL_CERT_FILE": os.environ["SSL_CERT_FILE"]}
        return super().open_account(self.identity, machine)

    def settings(self) -> Mapping[str, Any]:
        where = {"subscription": SUBSCRIPTION, "resource_group": "rehearsal"}
        url = self.vault.url.replace("http:", "https:")
        identity = {"identity": IDENTITIES + "jobs", "arm_url": self.account.url, "vault": url}
        return {**super().settings(), **where, **identity}

    def environment(self) -> dict[str, str]:
        trust = {name: os.environ[name] for name in TRUST}
        return {**super().environment(), **self.identity.env, **trust}

    def left(self) -> Iterator[str]:
        yield from super().left()
        for secret in self.vault.secrets.values():
            if not (secret.deleted and self.has_purge_protection):
                yield f"secret {secret.name}, {'deleted' if secret.deleted else 'as it was'}"
        if self.canary in json.dumps(self.account.control("GET", "calls")):
            yield "a request to Azure Batch with the secret"

    def close(self) -> None:
        self.vault.close()
        self.identity.close()
        super().close()
