"""The emulator as a server on the loopback interface."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_emulators.azure_batch.authentication import Authenticator, Listener
from runspec_emulators.azure_batch.errors import FAULTS
from runspec_emulators.azure_batch.http import Handler
from runspec_emulators.azure_batch.service import new_world
from runspec_emulators.azure_batch.settings import Settings
from runspec_emulators.azure_batch.world import World
from runspec_emulators.azure_services.identity import Identity
from runspec_emulators.frame import server
from runspec_emulators.frame.faults import Faults
from runspec_emulators.frame.listening import Certificate


class AzureBatch(server.Server[World]):
    """A running account of Azure Batch below *folder*. `close` ends every process of every task."""

    def __init__(
        self,
        folder: Path,
        account: str = "rehearsal",
        key: str | None = None,
        port: int = 0,
        *,
        certificate: Certificate | None = None,
        identity: Identity | None = None,
        **settings: Any,
    ) -> None:
        """*key* is base64; without one, a new one is made. *settings*: see `Settings`.

        With a *certificate* it talks https, which SDKs ask for before they send a token. What
        *identity* gives is taken, and machines get their tokens there.
        """
        self.account = account
        self.key = key or base64.b64encode(secrets.token_bytes(64)).decode()
        self.settings = Settings(Path(folder), account=account, key=self.key, **settings)
        listener = Listener(port, Handler, Faults(FAULTS))
        listener.names = self.settings.hosts
        listener.authenticator = Authenticator(self.settings, identity.tokens if identity else None)
        super().__init__(
            listener,
            lambda url: new_world(self.settings, self.settings.url or url, identity),
            World.close,
            certificate,
        )

    @property
    def env(self) -> Mapping[str, str]:
        """The variables that lead a client here: those that the Azure CLI has for Batch.

        https://learn.microsoft.com/en-us/azure/batch/batch-cli-get-started
        """
        return {
            "AZURE_BATCH_ACCOUNT": self.account,
            "AZURE_BATCH_ACCESS_KEY": self.key,
            "AZURE_BATCH_ENDPOINT": self.url,
        }
