"""An emulator as a server on the loopback interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from runspec_emulators.frame import control
from runspec_emulators.frame.calls import Listener, State
from runspec_emulators.frame.listening import Certificate, Closing


class Server(Closing, Generic[State]):
    """A running emulator."""

    def __init__(
        self,
        listener: Listener[State],
        world: Callable[[str], State],
        end: Callable[[State], None],
        certificate: Certificate | None = None,
    ) -> None:
        """Begin to listen, by https with a *certificate*.

        *world* makes the state of a service at a URL, and *end* ends every process of every job.
        """
        listener.encrypt(certificate)
        self._listener, self.url, self._certificate = listener, listener.url, certificate
        self._end = end
        self.world = listener.world = world(self.url)
        listener.begin()

    def control(self, method: str, path: str, value: Any = None) -> Any:
        """Send a request to a control path; return the answer."""
        return control.tell(self.url, method, path, value, self._certificate)

    def close(self) -> None:
        """Stop listening and end every process of every job. May be called twice."""
        if self._listener.end():
            self._end(self.world)
