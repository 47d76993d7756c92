"""The types of probes, which check assumptions about a service in a real account."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from runspec_jobs.provider.steps import Request

Bench = TypeVar("Bench")


class Verdict(StrEnum):
    """The result of a probe."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


class Observation(NamedTuple):
    """The result of a probe, and what it has *seen*: one line for the user, without secrets."""

    verdict: Verdict
    seen: str


class ProbeContext(Protocol):
    """The functions that a probe gets beside the client."""

    @property
    def name(self) -> str:
        """The name of this session, which begins with `probe-`; names of resources of probes must contain it."""

    def note(self, what: str, by_hand: str, *remove: Request) -> None:
        """Record on disk that *what* is about to be made; call this before it is made.

        *remove* are the requests that delete it, which must succeed if there is nothing to delete. They are sent after
        the last probe, the newest note first, or by the next session after a crash. *by_hand* is a command of the
        service's own tool that does the same.
        """

    def sleep(self, seconds: float) -> None:
        """Wait; Ctrl-C ends the wait and the session."""

    def tell(self, line: str) -> None:
        """Print *line* as progress."""


class Probe(NamedTuple):
    """One probe. *id* is that of a row in `docs/unverified.md`.

    *seconds* and *usd* are high estimates, by which the user decides. *after* is the probe that makes the resources
    which this one uses: it runs first, and its estimates include them. *run* is called with the provider's own client;
    if it raises an error of a client, the verdict is UNKNOWN.
    """

    id: str
    title: str
    seconds: float
    usd: float
    run: Callable[[Any, ProbeContext], Observation]
    after: str | None = None


class BenchProbe(NamedTuple, Generic[Bench]):
    """A probe whose *run* also gets a bench, an object that probes of a session share. See `Probe` for the fields."""

    id: str
    title: str
    seconds: float
    usd: float
    run: Callable[[Any, ProbeContext, Bench], Observation]
    after: str | None = None

    def on(self, bench: Bench) -> Probe:
        """Return the probe on *bench*."""

        def run(client: Any, context: ProbeContext) -> Observation:
            return self.run(client, context, bench)

        return Probe(self.id, self.title, self.seconds, self.usd, run, self.after)
