"""What a probe is: it finds out against a real account whether a belief about a service holds."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from runspec_jobs.provider.types import Request


class Verdict(StrEnum):
    """What a probe says of a belief."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNKNOWN = "could not tell"


class Observation(NamedTuple):
    """What a probe says, and what it *seen*: one line for a person, without secrets."""

    verdict: Verdict
    seen: str


class ProbeContext(Protocol):
    """What a probe is given beside the client."""

    @property
    def name(self) -> str:
        """A name that begins with `probe-` and is this session's alone; the name of all that a probe makes holds it."""

    def note(self, what: str, by_hand: str, *remove: Request) -> None:
        """Write down *what* is about to be made; call this before it is made.

        *remove* are the calls that take it away, which must be content when there is nothing to take away. They are
        made after the last probe, the latest note first, or by the next session after a crash. *by_hand* is a command
        of the service's own tool that does the same.
        """

    def sleep(self, seconds: float) -> None:
        """Wait; Ctrl-C ends the wait and the session."""

    def tell(self, line: str) -> None:
        """Say how it goes."""


class Probe(NamedTuple):
    """One probe. *id* is that of a row in `docs/unverified.md`.

    *seconds* and *usd* are estimates, on the high side, for a person to decide by. *after* is the probe that has made
    what this one uses: it is carried out first, and its figures have the cost. *run* is given the provider's own
    client. It may raise what clients raise: the verdict is then that it could not tell.
    """

    id: str
    title: str
    seconds: float
    usd: float
    run: Callable[[Any, ProbeContext], Observation]
    after: str | None = None
