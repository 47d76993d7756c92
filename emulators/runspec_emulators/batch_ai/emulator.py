"""The emulator as a server on the loopback interface."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_emulators.azure_services.identity import Tokens
from runspec_emulators.batch_ai import service
from runspec_emulators.batch_ai.errors import FAULTS
from runspec_emulators.batch_ai.http import IDENTITY, Handler
from runspec_emulators.batch_ai.settings import Settings
from runspec_emulators.batch_ai.world import World
from runspec_emulators.frame import server
from runspec_emulators.frame.calls import Listener
from runspec_emulators.frame.faults import Faults


class BatchAI(server.Server[World]):
    """A running emulator below *folder*; *settings* are those of `Settings`."""

    def __init__(self, folder: Path, logins: Tokens | None = None, **settings: Any) -> None:
        """Create the emulator; it also accepts the tokens that *logins* issued for the Resource Manager."""
        chosen = Settings(folder, **settings)
        listener = Listener[World](0, Handler, Faults(FAULTS, chosen.seed))
        listener.names = chosen.hosts
        super().__init__(
            listener,
            lambda url: World(chosen, chosen.url or url, logins),
            service.close,
        )

    @property
    def env(self) -> Mapping[str, str]:
        """The variables that lead azure-identity and a client of ARM here.

        The identity endpoint is the one of App Service, which may be http.
        https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
        """
        return {
            "AZURE_SUBSCRIPTION_ID": self.world.settings.subscription,
            "AZURE_RESOURCE_MANAGER_URL": self.url,
            "IDENTITY_ENDPOINT": f"{self.url}{IDENTITY}",
            "IDENTITY_HEADER": self.world.identity,
        }

    def token(self) -> str:
        """Return a bearer token that this emulator accepts."""
        token: str = self.control("POST", "token")["token"]
        return token
