"""The stand-in as a server on the loopback interface."""

from __future__ import annotations

from runspec_rehearsal import listening
from runspec_rehearsal.aws.faults import Faults
from runspec_rehearsal.azure.batchai.settings import Settings
from runspec_rehearsal.azure.batchai.wire import Calls, Handler
from runspec_rehearsal.azure.batchai.world import World


class Listener(listening.Listener):
    """The socket, and what its handlers need."""

    world: World
    faults: Faults
    calls: Calls


class Server:
    """A running stand-in. `close` ends every process of every job."""

    def __init__(self, settings: Settings, port: int = 0) -> None:
        self._listener = Listener((listening.HOST, port), Handler)
        self.url = self._listener.url
        self.world = World(settings, self.url)
        self._listener.world = self.world
        self._listener.faults = Faults(settings.seed)
        self._listener.calls = Calls()
        self._listener.begin()

    def close(self) -> None:
        """Listen no more, and end every process of every job. May be called twice."""
        if self._listener.end():
            self.world.close()
