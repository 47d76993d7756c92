"""How often the logs of a run are read, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runspec_jobs.errors import TimedOut
from runspec_jobs.logs.outage import Outage, make_pauses
from runspec_jobs.provider import SupportsLogs

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 1.0
STEADY_PAUSE_S = 0.1  # a delay that readers do not notice
# Reading logs takes processor time from a job on this machine, so pauses grow with the time followed, up to a limit.
FOLLOWED_SHARE = 200
QUIET_SHARE = 10  # after a silence, the end is noticed late by at most a tenth of the silence
QUIET_PAUSE_S = 0.5  # so that a line of a job on this machine is shown within a second
# Before the first repeated read of a log that is not complete at the end of its run.
FIRST_REST_S = 0.05

Sleep = Callable[[float], None]


class ReadPauses:
    """Pauses between the passes over the logs of a run, and limits how long it is followed."""

    def __init__(
        self,
        run: str,
        source: SupportsLogs,
        timeout_s: float | None,
        sleep: Sleep,
        clock: Callable[[], float],
    ) -> None:
        self.run, self.timeout_s, self._source = run, timeout_s, source
        self._sleep, self._clock = sleep, clock
        self._started_s = self._shown_s = clock()  # the latter is when a line was last shown

    def pause(self, shown: int, outage: Outage) -> None:
        """Pause after a pass that has shown *shown* lines: briefly while lines come, longer after a silence.

        Raises TimedOut if the time is over.
        """
        now = self._clock()
        if self._is_over(now):
            raise TimedOut(f"{self.run} has not ended after {self.timeout_s:g} s; it goes on")
        self._shown_s = now if shown else self._shown_s
        pause_s = _pause_s(now - self._started_s, now - self._shown_s)
        pause_s = pause_s if shown else max(pause_s, _get_least_pause(self._source))
        self._sleep(max(pause_s, outage.pause_s))

    def wait_for_rest(self, pause_s: float) -> None:
        """Pause before the rest of the logs of a run that has ended is read again. Raises TimedOut likewise."""
        if self._is_over(self._clock()):
            limit = f"{self.timeout_s:g} s"
            raise TimedOut(f"{self.run} has ended, and its logs cannot be read after {limit}")
        self._sleep(pause_s)

    def _is_over(self, now: float) -> bool:
        return self.timeout_s is not None and now - self._started_s > self.timeout_s


def _pause_s(followed_s: float, quiet_s: float) -> float:
    """Return the pause before the next pass, from the time followed and the time since the last line."""
    least_s = max(FIRST_PAUSE_S, min(followed_s / FOLLOWED_SHARE, STEADY_PAUSE_S))
    return min(max(quiet_s / QUIET_SHARE, least_s), QUIET_PAUSE_S)


def _get_least_pause(source: SupportsLogs) -> float:
    """Return the least pause that the service asks for; a provider that reads logs from this machine needs none."""
    return 0.0 if is_near(source) else source.poll_s


def is_near(source: SupportsLogs) -> bool:
    """Return whether *source* is read from files, here or in the workspace of Slurm, and not from a service."""
    return source.poll_s < LONGEST_PAUSE_S


def make_rests() -> Iterator[float]:
    """Yield seconds to wait before each repeated read of a log that is not complete at the end of its run."""
    return make_pauses(FIRST_REST_S, LONGEST_PAUSE_S)
