"""Jobs that Slurm does not list and that have no exit record, which may still appear in the workspace.

Clients of a file server see the files of others up to a minute late (acdirmax, nfs(5)), and a controller that lost its
state does not know jobs that still run.
"""

from __future__ import annotations

from runspec_jobs.provider import State, Status
from runspec_slurm import reasons
from runspec_slurm.status.workspace_poll import Seen
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore

# Argument: the run, and for CHECK the minutes to wait. The time of the file `missing` says since when the run is
# unknown; any file that is written later restarts the wait. In a folder of another user, the time of the record has to
# do.
SINCE = f"""\
cd "runs/$1" 2>/dev/null || exit {NOTHING}
f=missing
[ -w . ] || f=record.json
valid() {{ [ -e "$f" ] && {{ [ "$f" != missing ] || [ -z "$(find . -type f -newer "$f" -print | head -n 1)" ]; }}; }}
"""
CHECK = f"""\
{SINCE}valid || exit 0
[ -z "$(find "$f" -mmin "+$2")" ] || echo over
"""
MARK = f'{SINCE}valid || echo >"$f"\n'


class UnknownOutcomes:
    """Runs with an unknown outcome. Neither the accounting nor the workspace is polled again at once."""

    def __init__(self, store: WorkspaceStore) -> None:
        self.store = store
        self._good_until_s: dict[str, float] = {}
        self._unmarked: set[str] = set()  # runs that `mark` has to look at

    def just_asked(self, run: str) -> bool:
        return self.store.clock.monotonic() < self._good_until_s.get(run, 0.0)

    def over(self, run: str) -> bool:
        """Return whether *run* has been unknown, without any change, for long enough to count as failed.

        The time counts from the first `mark`.
        """
        timing = self.store.timing
        found = self.store.look(f"look for {run}", CHECK, run, str(timing.unknown_min)) or b""
        over = found.strip() == b"over"
        if not over:
            self._good_until_s[run] = self.store.clock.monotonic() + timing.unknown_poll_s
            self._unmarked.add(run)
        return over

    def mark(self, run: str) -> None:
        """Note in the workspace that *run* is unknown, if the last `over` said so, and it was not noted yet."""
        if run in self._unmarked:
            self.store.change(f"note that {run} is unknown", MARK, run)
            self._unmarked.discard(run)


def status(seen: Seen) -> Status:
    """Return the status of a run of which only *seen* is known."""
    begun = bool(seen.ends) or any(seen.logs.values())
    return Status(State.RUNNING if begun else State.WAITING, reasons.NOT_KNOWN)
