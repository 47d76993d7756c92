"""The stand-in as a context manager: what rehearsals and tests begin with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_emulators import control
from runspec_emulators.azure.batchai.server import Server
from runspec_emulators.azure.batchai.settings import Settings
from runspec_emulators.azure.batchai.wire import IDENTITY
from runspec_emulators.azure.identity import Tokens
from runspec_emulators.listening import Closing


class BatchAI(Closing):
    """The stand-in below *folder*; *settings* are those of `Settings`, *logins* gave tokens."""

    def __init__(self, folder: Path, logins: Tokens | None = None, **settings: Any) -> None:
        self.server = Server(Settings(folder, **settings), logins=logins)
        self.url = self.server.url

    @property
    def env(self) -> Mapping[str, str]:
        """The variables that lead azure-identity and a client of ARM here.

        The identity endpoint is the one of App Service, which may be http.
        https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
        """
        return {
            "AZURE_SUBSCRIPTION_ID": self.server.world.settings.subscription,
            "AZURE_RESOURCE_MANAGER_URL": self.url,
            "IDENTITY_ENDPOINT": f"{self.url}{IDENTITY}",
            "IDENTITY_HEADER": self.server.world.identity,
        }

    def token(self) -> str:
        """Give a bearer token that is good here."""
        found: str = self.control("POST", "token")["token"]
        return found

    def control(self, method: str, path: str, value: Any = None) -> Any:
        """Tell the stand-in something: see `runspec_emulators.azure.batchai.control`."""
        return control.tell(self.url, method, path, value)

    def close(self) -> None:
        self.server.close()
