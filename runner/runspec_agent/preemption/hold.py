"""What is left to do on a machine of Azure that is to be taken away: to be there when it is.

Azure Batch queues a task again whose machine was taken away, and counts one that ended before that as a failure. So
the first node of a task, whose end is the task's, stays when its own machine or another node's is to go.
https://learn.microsoft.com/azure/batch/batch-spot-vms
"""

import time
from typing import Callable

from runspec_agent.base.job_env import STOPPED, Failure
from runspec_agent.base.process import Signals
from runspec_agent.preemption.azure import ScheduledEventsWatcher
from runspec_agent.store.base import Bucket

GOES, STAYS = b"to be taken away", b"stays after all"
LOOK_S = 2.0
LONGEST_S = (
    1200.0  # a Terminate is announced 15 minutes before at most; no notice is waited for any longer
)


class PreemptionHold:
    """The notices of the nodes of one try, in the store. *say* says a line, and keeps all that was said."""

    def __init__(self, bucket: Bucket, prefix: str, rank: int, say: Callable[[str], None]) -> None:
        self.bucket, self.prefix, self.rank, self.say = bucket, prefix, rank, say

    def note(self, word: bytes = GOES) -> None:
        """Tell the other nodes, where there are any, that this machine is to go."""
        try:
            self.bucket.put(self.prefix + str(self.rank), word)
        except Failure as failure:  # the machine does not wait
            self.say(str(failure))

    def stay(self, watch: ScheduledEventsWatcher, signals: Signals) -> None:
        """Be here when this machine is taken away, if it has said so."""
        if watch.notice is not None and not self._wait(watch.still, signals):
            self.note(STAYS)

    def excused(self, code: int, signals: Signals) -> int:
        """Return *code*; on the first node that of a failure only if no machine goes in the end."""
        if self.rank > 0 or code in (0, STOPPED) or not self._any():
            return code
        self._wait(self._any, signals)
        return STOPPED

    def _any(self) -> bool:
        return any(self.bucket.get(found.key) == GOES for found in self.bucket.listing(self.prefix))

    def _wait(self, still: Callable[[], bool], signals: Signals) -> bool:
        """Wait while *still*, and return whether it still is; being told to end ends it."""
        if signals.stopping:
            return True
        self.say("what was to be saved is: waiting for the machine to be taken away")
        end = time.monotonic() + LONGEST_S
        while time.monotonic() < end and not signals.stopping:
            signals.wait(LOOK_S)
            try:
                if not still():
                    self.say("no machine was taken away: the try ends without it")
                    return False
            except (OSError, ValueError, Failure):  # the last that was said holds
                pass
        return True
