"""What the fault proxy must know of Azure for a key vault: it has a login, and it is known by https alone.

The proxy sees what is sent over http, so commands and jobs are led to the vault by that.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from azure.core.pipeline.policies import BearerTokenCredentialPolicy

from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.infrastructure import run_secrets
from runspec_azure.session import clients, key_vault
from tests.faults import wire_azure
from tests.faults.boundaries import Boundaries
from tests.support.azure.plain_tokens import send_over_http


def warm() -> None:
    wire_azure.warm()
    importlib.import_module("azure.mgmt.batch")


def make_plain(url: str) -> str:
    return url.replace("https://127.", "http://127.")


def installed(steps: Boundaries, at: int | None, fault: str | None) -> None:
    """Count the requests of this process, those to the vault as well."""
    policy: Any = BearerTokenCredentialPolicy
    policy.on_request = send_over_http
    session: Any = clients
    session.refuse_plain = lambda *_: None
    vault: Any = key_vault.KeyVault
    secrets: Any = run_secrets
    opened, listed = vault.__init__, secrets.list_urls

    def open_plain(self: Any, options: Any, *more: Any) -> None:
        opened(self, options.model_copy(update={"vault": make_plain(options.vault)}), *more)

    def list_plain(*given: Any) -> Mapping[str, str]:
        return {name: make_plain(url) for name, url in listed(*given).items()}

    vault.__init__, secrets.list_urls = open_plain, list_plain
    steps.watch(AzureClient)
    wire_azure.count(steps, at, fault)
