"""The socket of the emulator, and what its handlers need."""

from __future__ import annotations

from runspec_emulators.azure_batch.authentication import Authenticator
from runspec_emulators.azure_batch.world import World
from runspec_emulators.frame import calls


class Listener(calls.Listener[World]):
    """The socket of the service, and what checks who asks."""

    authenticator: Authenticator
