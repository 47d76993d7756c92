"""The stand-in as a server on the loopback interface."""

from __future__ import annotations

from collections.abc import Iterable

from runspec_emulators import answering, listening
from runspec_emulators.aws.faults import ERRORS
from runspec_emulators.aws.settings import Settings
from runspec_emulators.aws.wire import Handler
from runspec_emulators.aws.world import World
from runspec_emulators.faults import Faults


class Listener(answering.Listener):
    """The socket, and what its handlers need."""

    world: World


class Server(listening.Closing):
    """A running stand-in. `close` ends every process of every job."""

    def __init__(self, settings: Settings, port: int) -> None:
        self._listener = Listener(port, Handler, Faults(ERRORS, settings.seed))
        self.url = self._listener.url
        self.world = World(settings, self.url)
        self._listener.world = self.world
        self._listener.begin()

    def load_lines(self, group: str, stream: str, lines: Iterable[tuple[int, str]]) -> None:
        """Put (milliseconds since 1970, text) into a log stream, which is made where it is not.

        The lines are in order of time. They are seen as the log model in force lets them be.
        """
        self.world.logs.load(group, stream, lines)

    def close(self) -> None:
        """Listen no more, and end every process of every job. May be called twice."""
        if self._listener.end():
            self.world.close()


def serve(settings: Settings, port: int = 0) -> Server:
    """Start a stand-in for `batch` and `logs`; port 0 takes any free one."""
    return Server(settings, port)
