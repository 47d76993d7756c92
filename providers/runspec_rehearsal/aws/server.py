"""The stand-in as a server on the loopback interface."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from runspec_rehearsal import listening
from runspec_rehearsal.aws.faults import Faults
from runspec_rehearsal.aws.settings import Settings
from runspec_rehearsal.aws.wire import Calls, Handler
from runspec_rehearsal.aws.world import World


class Listener(listening.Listener):
    """The socket, and what its handlers need."""

    world: World
    faults: Faults
    calls: Calls


class Server:
    """A running stand-in. `close` ends every process of every job."""

    def __init__(self, settings: Settings, port: int) -> None:
        self._listener = Listener((listening.HOST, port), Handler)
        self.url = self._listener.url
        self.world = World(settings, self.url)
        self._listener.world = self.world
        self._listener.faults = Faults(settings.seed)
        self._listener.calls = Calls()
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def serve(settings: Settings, port: int = 0) -> Server:
    """Start a stand-in for `batch` and `logs`; port 0 takes any free one."""
    return Server(settings, port)
