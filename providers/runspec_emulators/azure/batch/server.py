"""The stand-in as a server on the loopback interface."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_emulators import answering, control, listening
from runspec_emulators.azure.batch.auth import Doorman
from runspec_emulators.azure.batch.faults import ERRORS
from runspec_emulators.azure.batch.settings import Settings
from runspec_emulators.azure.batch.wire import Handler
from runspec_emulators.azure.batch.world import World
from runspec_emulators.azure.identity import Identity
from runspec_emulators.faults import Faults
from runspec_emulators.listening import Certificate


class Listener(answering.Listener):
    """The socket, and what its handlers need."""

    world: World
    doorman: Doorman


class AzureBatch(listening.Closing):
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
        self._certificate = certificate
        self.key = key or base64.b64encode(secrets.token_bytes(64)).decode()
        self.settings = Settings(Path(folder), account=account, key=self.key, **settings)
        self._listener = Listener(port, Handler, Faults(ERRORS))
        self._listener.encrypt(certificate)
        self.url = self._listener.url
        self.world = World(self.settings, self.settings.url or self.url, identity)
        self._listener.world = self.world
        self._listener.doorman = Doorman(self.settings, identity.tokens if identity else None)
        self._listener.begin()

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

    def control(self, method: str, what: str, body: Any = None) -> Any:
        """Tell the stand-in something: see `runspec_emulators.azure.batch.control`."""
        return control.tell(self.url, method, what, body, self._certificate)

    def close(self) -> None:
        """Listen no more, and end every process of every task. May be called twice."""
        if self._listener.end():
            self.world.close()
