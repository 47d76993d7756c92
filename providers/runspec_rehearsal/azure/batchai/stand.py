"""The stand-in as a context manager: what rehearsals and tests begin with."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runspec_rehearsal.azure.batchai.server import Server
from runspec_rehearsal.azure.batchai.settings import Settings
from runspec_rehearsal.azure.batchai.wire import IDENTITY


class BatchAI:
    """The stand-in below *folder*; *settings* are those of `Settings`."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.server = Server(Settings(folder, **settings))
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
        """Tell the stand-in something: see `runspec_rehearsal.azure.batchai.control`."""
        link = http.client.HTTPConnection(self.url.partition("//")[2], timeout=30)
        with contextlib.closing(link):
            link.request(method, f"/_rehearsal/{path}", json.dumps(value))
            answer = link.getresponse()
            found = json.loads(answer.read())
        assert answer.status == 200, found
        return found

    def close(self) -> None:
        self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
