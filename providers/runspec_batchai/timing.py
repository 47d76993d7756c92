"""How often Batch AI is polled, and how long waits may take; its limits are undocumented, so these are careful."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """The intervals and limits of a client, in seconds.

    A follower of a quiet run sends less than one request a second in total: for the end of a log every *poll_s*, for
    the job every *fresh_s*, for the list of files every *listed_s*.
    """

    poll_s: float = 2.0
    fresh_s: float = 4.0
    listed_s: float = 20.0
    why_s: float = 5.0
    """How long the reason why a job waits is used again."""
    first_pause_s: float = 0.1
    """Between the first two looks for the end of a deletion, or the first two reads of a file on a busy share; each
    later pause is longer."""
    longest_pause_s: float = 5.0
    """The longest of these pauses."""
    gone_s: float = 900.0
    """The longest wait for a deletion."""
    link_s: float = 55 * 60.0
    """How long a link to a file, which expires after an hour, is used."""


DEFAULT = Timing()  # what `connect` uses
