"""Receives what the engine has to say while it works."""

from __future__ import annotations

from runspec_jobs.provider import Progress


class Reporter:
    """Ignores everything; a subclass overrides what it wants to show. No method may raise an error."""

    def note(self, text: str) -> None:
        """Take a message for a person, such as which run is continued."""

    def wait(self, text: str) -> None:
        """Take a message about what has to end first, such as another command that holds a lock, or about an outage."""

    def step(self, title: str) -> None:
        """Note that a step of a plan begins."""

    def line(self, text: str) -> None:
        """Take a line that a tool printed while it works on a step."""

    def progress(self, title: str) -> Progress:
        """Return the function to call with the bytes that *title* has transferred, and with the bytes in all."""
        return lambda done, whole: None
