"""Keep a task of Azure Batch running until its machine is reclaimed, after a notice.

Azure Batch requeues a task if its machine is reclaimed while the task runs, and counts it as failed if it has ended
before. A task ends when its first node ends. After a notice for any node's machine, the first node therefore waits
until that machine is reclaimed.

https://learn.microsoft.com/azure/batch/batch-spot-vms
"""

import time
from typing import Callable

from runspec_agent.base.job_env import STOPPED, Failure
from runspec_agent.base.process import Signals
from runspec_agent.preemption.watcher import PreemptionWatcher
from runspec_agent.store.base import Bucket

GOES, STAYS = b"to be taken away", b"stays after all"
LOOK_S = 2.0
LONGEST_S = (
    1200.0  # a Terminate event comes at most 15 minutes ahead; the hold ends after this time
)


class PreemptionHold:
    """The notices of all nodes of one attempt, in the store. *say* prints a line and uploads the log."""

    def __init__(self, bucket: Bucket, prefix: str, rank: int, say: Callable[[str], None]) -> None:
        self.bucket, self.prefix, self.rank, self.say = bucket, prefix, rank, say

    def note(self, word: bytes = GOES) -> None:
        """Tell the other nodes, if any, that this machine will be reclaimed."""
        try:
            self.bucket.put(self.prefix + str(self.rank), word)
        except Failure as failure:  # there is no time to repeat the request
            self.say(str(failure))

    def stay(self, watch: PreemptionWatcher, signals: Signals) -> None:
        """Wait until this machine is reclaimed, if it has a notice."""
        if watch.notice is not None and not self._wait(watch.still, signals):
            self.note(STAYS)

    def excused(self, code: int, signals: Signals) -> int:
        """Return *code*; on the first node, wait before returning a failure while any machine may be reclaimed."""
        if self.rank > 0 or code in (0, STOPPED) or not self._any():
            return code
        self._wait(self._any, signals)
        return STOPPED

    def _any(self) -> bool:
        return any(self.bucket.get(entry.key) == GOES for entry in self.bucket.listing(self.prefix))

    def _wait(self, still: Callable[[], bool], signals: Signals) -> bool:
        """Wait while *still* returns true; return its last result. A signal to end stops the wait."""
        if signals.stopping:
            return True
        self.say("outputs are saved: waiting until the machine is reclaimed")
        end = time.monotonic() + LONGEST_S
        while time.monotonic() < end and not signals.stopping:
            signals.wait(LOOK_S)
            try:
                if not still():
                    self.say("no machine was reclaimed: the attempt ends now")
                    return False
            except (OSError, ValueError, Failure):  # keep the last known answer
                pass
        return True
