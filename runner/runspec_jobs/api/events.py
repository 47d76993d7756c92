"""What functions that take time report while they work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.provider import Progress


@dataclass(frozen=True)
class Event:
    """What `load`, `apply` and `Run` report while they work.

    *kind* is "note" (a message), "wait" (what has to end first, or an outage), "step" (a step of the plan begins),
    "line" (a line that a tool printed) or "transfer" (*done* of *total* bytes; *total* is 0 if it is not known).
    """

    kind: str
    text: str
    done: int = 0
    total: int = 0


OnEvent = Callable[[Event], None]
"""A function that is called with each `Event`, from the thread of the caller or from one that follows a run."""


class Events(Reporter):
    """Passes on what the engine reports as events."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._send: OnEvent = on_event or (lambda event: None)

    def note(self, text: str) -> None:
        self._send(Event("note", text))

    def wait(self, text: str) -> None:
        self._send(Event("wait", text))

    def step(self, title: str) -> None:
        self._send(Event("step", title))

    def line(self, text: str) -> None:
        self._send(Event("line", text))

    def progress(self, title: str) -> Progress:
        return lambda done, whole: self._send(Event("transfer", title, done, whole))
