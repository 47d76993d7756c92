"""Waits for services that do not answer for a while, and reports each outage once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from runspec_jobs.errors import FileFailed, NoAnswer, RemoteError, RunspecError, Unavailable

FIRST_PAUSE_S, GROWS, LONGEST_PAUSE_S = 0.2, 1.5, 5.0

Answered = TypeVar("Answered")


def is_passing(exc: RunspecError) -> bool:
    """Return whether *exc* may pass by itself.

    Refused credentials, missing resources, and a full disk of this machine do not.
    """
    if isinstance(exc, FileFailed):
        return False
    return isinstance(exc, NoAnswer | Unavailable) or (
        isinstance(exc, RemoteError) and exc.transient
    )


def make_pauses(
    first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S
) -> Iterator[float]:
    """Yield seconds to wait between two requests, each half as long again as the one before, up to *longest_s*.

    >>> import itertools
    >>> [round(pause_s, 2) for pause_s in itertools.islice(make_pauses(1, 4), 5)]
    [1, 1.5, 2.25, 3.38, 4]
    """
    pause_s = first_s
    while True:
        yield pause_s
        pause_s = min(longest_s, pause_s * GROWS)


@dataclass
class Outage:
    """Tracks which parts of a service answer, and calls *tell* once when one stops answering and when all answer again.

    Before the first answer errors are raised: a wrong name is then more likely than a service that is down.
    """

    tell: Callable[[str], None]
    patient: bool = True
    wall: Callable[[], float] = time.time
    answered: bool = False
    _silent: set[str] = field(default_factory=set)
    _pauses: Iterator[float] = field(default_factory=make_pauses)

    @property
    def pause_s(self) -> float:
        """The seconds to wait until the next request; 0 while all parts answer."""
        return next(self._pauses) if self._silent else 0.0

    def note_answer(self, part: str) -> None:
        """Note that *part* has answered."""
        self.answered = True
        if part in self._silent:
            self._silent.remove(part)
            if not self._silent:
                self._pauses = make_pauses()
                self.tell("the service answers again")

    def note_failure(self, part: str, exc: RunspecError) -> None:
        """Note that *part* has not answered. Raises *exc* if it will not pass by itself."""
        # Before its first answer, the service may simply be misspelt in the profile.
        if not (self.patient and self.answered and is_passing(exc)):
            raise exc
        if not self._silent:
            since = time.strftime("%H:%M:%S", time.localtime(self.wall()))
            self.tell(f"the service does not answer since {since} ({exc.message}); still trying")
        self._silent.add(part)

    def call_until_answered(
        self, part: str, ask: Callable[[], Answered], sleep: Callable[[float], None]
    ) -> Answered:
        """Return the result of *ask*, which is called again while *part* does not answer."""
        while True:
            try:
                result = ask()
            except RunspecError as exc:
                self.note_failure(part, exc)
            else:
                self.note_answer(part)
                return result
            sleep(self.pause_s)


Start = Callable[[Callable[[], Answered]], Future[Answered]]


def start_call(ask: Callable[[], Answered]) -> Future[Answered]:
    """Call *ask* in a new thread, and return the future of its result."""
    future: Future[Answered] = Future()
    # A daemon: a request that hangs must not keep the command from its end. Threads of an executor would.
    threading.Thread(target=answer, args=(ask, future), daemon=True).start()
    return future


def answer(ask: Callable[[], Answered], future: Future[Answered]) -> None:
    """Call *ask*, and put its result or exception into *future*."""
    try:
        future.set_result(ask())
    except BaseException as exc:  # noqa: BLE001 - this is a thread: the future raises it in the caller
        future.set_exception(exc)
