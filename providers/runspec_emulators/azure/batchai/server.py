"""The stand-in as a server on the loopback interface."""

from __future__ import annotations

from runspec_emulators import answering
from runspec_emulators.azure.batchai.faults import ERRORS
from runspec_emulators.azure.batchai.settings import Settings
from runspec_emulators.azure.batchai.wire import Handler
from runspec_emulators.azure.batchai.world import World
from runspec_emulators.azure.identity import Tokens
from runspec_emulators.faults import Faults


class Listener(answering.Listener):
    """The socket, and what its handlers need."""

    world: World


class Server:
    """A running stand-in. `close` ends every process of every job."""

    def __init__(self, settings: Settings, port: int = 0, logins: Tokens | None = None) -> None:
        """What *logins* gave for the Resource Manager is taken as well."""
        self._listener = Listener(port, Handler, Faults(ERRORS, settings.seed))
        self.url = self._listener.url
        self.world = World(settings, settings.url or self.url, logins)
        self._listener.world = self.world
        self._listener.begin()

    def close(self) -> None:
        """Listen no more, and end every process of every job. May be called twice."""
        if self._listener.end():
            self.world.close()
