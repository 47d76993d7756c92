"""The stand-in as a server on the loopback interface."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runspec_rehearsal import listening
from runspec_rehearsal.azure.batch.auth import Doorman
from runspec_rehearsal.azure.batch.faults import Faults
from runspec_rehearsal.azure.batch.settings import Settings
from runspec_rehearsal.azure.batch.wire import Calls, Handler
from runspec_rehearsal.azure.batch.world import World


class Listener(listening.Listener):
    """The socket, and what its handlers need."""

    world: World
    faults: Faults
    calls: Calls
    doorman: Doorman


class AzureBatch:
    """A running account of Azure Batch below *folder*. `close` ends every process of every task."""

    def __init__(
        self,
        folder: Path,
        account: str = "rehearsal",
        key: str | None = None,
        port: int = 0,
        **settings: Any,
    ) -> None:
        """*key* is base64; without one, a new one is made. *settings*: see `Settings`."""
        self.account = account
        self.key = key or base64.b64encode(secrets.token_bytes(64)).decode()
        self.settings = Settings(Path(folder), account=account, key=self.key, **settings)
        self._listener = Listener((listening.HOST, port), Handler)
        self.url = self._listener.url
        self.world = World(self.settings, self.url)
        self._listener.world = self.world
        self._listener.faults = Faults()
        self._listener.calls = Calls()
        self._listener.doorman = Doorman(self.settings)
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
        """Tell the stand-in something: see `runspec_rehearsal.azure.batch.control`."""
        link = http.client.HTTPConnection(self.url.partition("//")[2], timeout=30)
        with contextlib.closing(link):
            link.request(method, f"/_rehearsal/{what}", json.dumps(body))
            answer = link.getresponse()
            found = json.loads(answer.read())
        assert answer.status == 200, found
        return found

    def close(self) -> None:
        """Listen no more, and end every process of every task. May be called twice."""
        if self._listener.end():
            self.world.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
