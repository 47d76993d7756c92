"""A job that Slurm does not know and that has left no word of its end: the word may still be on its way.

A file server's clients see what others wrote up to a minute late (acdirmax, nfs(5)), and a controller that lost its
state knows nothing of jobs that still run.
"""

from __future__ import annotations

import time

from runspec_jobs.provider import State, Status
from runspec_slurm import reasons, timing
from runspec_slurm.status.workspace_poll import Seen
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore

# run; since when nothing is known of it stands in the time of a file. What anybody writes later begins that anew.
DOUBT = f"""\
cd "runs/$1" 2>/dev/null || exit {NOTHING}
f=missing
[ -w . ] || f=record.json
[ "$f" != missing ] || {{
[ -e "$f" ] && [ -z "$(find . -type f -newer "$f" -print | head -n 1)" ] || echo >"$f" || exit 1
}}
[ -z "$(find "$f" -mmin +{timing.DOUBT_MIN})" ] || echo over
"""


class UnknownOutcomes:
    """What is said of runs meanwhile. Neither the accounting nor the workspace is asked again at once."""

    def __init__(self, shelf: WorkspaceStore) -> None:
        self.shelf = shelf
        self._good_until_s: dict[str, float] = {}

    def just_asked(self, run: str) -> bool:
        return time.monotonic() < self._good_until_s.get(run, 0.0)

    def over(self, run: str) -> bool:
        """Return whether nothing has come of *run* for so long that nothing will."""
        found = self.shelf.change(f"look for {run}", DOUBT, run) or b""
        over = found.strip() == b"over"
        if not over:
            self._good_until_s[run] = time.monotonic() + timing.DOUBT_AGAIN_S
        return over


def status(seen: Seen) -> Status:
    """Return how a run stands of which this is all that is known."""
    begun = bool(seen.ends) or any(seen.logs.values())
    return Status(State.RUNNING if begun else State.WAITING, reasons.NOT_KNOWN)
