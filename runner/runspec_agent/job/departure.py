"""Why the program of a node has to end before it is done: its machine goes, its time is over, or others have ended."""

import math
import os
import time
from typing import Any, Callable, Dict, Optional

from runspec_agent import extensions
from runspec_agent.base import end_causes
from runspec_agent.base.job_env import STOPPED, Failure
from runspec_agent.base.process import Signals
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.preemption import limit_signal
from runspec_agent.preemption.hold import PreemptionHold
from runspec_agent.preemption.watcher import PreemptionWatcher
from runspec_agent.retry.exit_barrier import ExitBarrier
from runspec_agent.retry.multi_instance import MultiInstanceTask
from runspec_agent.retry.retry_rounds import AGAIN, TOO_LONG, RetryRound
from runspec_agent.store.base import Bucket

EC2 = "ec2"  # what `spot: true` in a record means


class Leaving(Failure):
    """The reason, the exit code of the node, and the cause for its end record."""

    def __init__(self, message: str, code: int, cause: str) -> None:
        super().__init__(message, code)
        self.cause = cause


class Departure:
    """The reason of one node, once there is one. *say* prints a line."""

    def __init__(
        self, env: Dict[str, str], record: Dict[str, Any], say: Callable[[str], None]
    ) -> None:
        self.env, self.record, self.say = env, record, say
        self.leaving: Optional[Leaving] = None
        self.taken: Optional[PreemptionHold] = None
        self.watch = _make_watcher(record.get("spot"), env)
        # On Slurm, the batch script keeps the timeout, for all nodes at once; those of an elastic job have one each.
        kept = "RUNSPEC_TIMEOUT_S" in env and not record.get("elastic")
        limit_s = None if kept else record.get("timeout_s")
        self._until = math.inf if limit_s is None else time.monotonic() + limit_s
        # The signal before the time limit, once: on Slurm, the batch script says when.
        self._signal: Optional[Dict[str, Any]] = record.get("signal")

    def hold(
        self, bucket: Bucket, at: str, identity: TaskIdentity, say: Callable[[str], None]
    ) -> None:
        """Keep the attempt running after a notice if the service wants that; *say* also uploads the log."""
        if self.watch is not None and self.watch.holds:
            key = "{}taken/{}/{}/".format(at, identity.task, identity.attempt)
            self.taken = PreemptionHold(bucket, key, identity.rank, say)

    def excused(self, code: int, signals: Signals) -> int:
        """Return *code*, or STOPPED for a failure while the machine of any node is being reclaimed."""
        return code if self.taken is None else self.taken.excused(code, signals)

    def listen(self) -> None:
        """Watch for notices that the spot machine will be reclaimed."""
        if self.watch is not None:
            self.watch.start()

    def finish(self) -> None:
        if self.watch is not None:
            self.watch.finish()

    def notice(self) -> Optional[str]:
        """Return a message that this node is about to lose its machine, if there was a notice."""
        if self.watch is None or self.watch.notice is None:
            return None
        return "the machine will be reclaimed at {}".format(self.watch.notice)

    def late(self) -> Optional[str]:
        """Return a message that the attempt has taken longer than `timeout`, if it has."""
        if time.monotonic() < self._until:
            return None
        return "the attempt took longer than its timeout of {:g} s".format(self.record["timeout_s"])

    def remind(self, now: bool = True) -> None:
        """Send the program the signal of the spec; unless *now*, do so only if its time has come."""
        wanted = self._signal
        if wanted is None or not (now or time.monotonic() > self._until - wanted["before_s"]):
            return
        self._signal = None
        self.say(limit_signal.send(wanted["name"], os.getpid(), self.env))

    def stay(self, signals: Signals) -> None:
        """Wait until this machine is reclaimed, if its service wants that after a notice."""
        if self.taken is not None and self.watch is not None:
            self.taken.stay(self.watch, signals)

    def look(
        self,
        signals: Signals,
        rank: int,
        together: Optional[RetryRound],
        crew: Optional[MultiInstanceTask],
        gang: Optional[ExitBarrier],
    ) -> Optional[Leaving]:
        """Return why the program has to end now, printed once; the other nodes are told."""
        self.remind(now=False)
        if self.leaving is None:
            self.leaving = self._reason(together, crew, gang)
            if self.leaving is not None:
                self.say("{}: the program is told to end".format(self.leaving))
                if self.taken is not None and self.leaving.cause == end_causes.RECLAIMED:
                    self.taken.note()
        if together is not None and signals.stopping:
            together.propose(*together.stopped())
        elif together is not None and self.leaving is not None and self.notice():
            why = "the machine of node {} will be reclaimed".format(rank)
            together.propose(AGAIN, why)
        return self.leaving

    def _reason(
        self,
        together: Optional[RetryRound],
        crew: Optional[MultiInstanceTask],
        gang: Optional[ExitBarrier],
    ) -> Optional[Leaving]:
        verdict = None if together is None else together.verdict
        notice, late = self.notice(), self.late()
        if notice is not None:
            return Leaving(notice, STOPPED, end_causes.RECLAIMED)
        if verdict is not None and verdict.timed_out:
            return Leaving(verdict.why, TOO_LONG, end_causes.TIMEOUT)
        if verdict is not None:
            return Leaving(verdict.why, verdict.code, end_causes.PEER)
        if crew is not None and crew.over:
            return Leaving("the first node has ended", STOPPED, end_causes.PEER)
        failed = None if gang is None else gang.failed_peer()
        if failed is not None:
            return Leaving("node {} has failed".format(failed), STOPPED, end_causes.PEER)
        return None if late is None else Leaving(late, TOO_LONG, end_causes.TIMEOUT)


def _make_watcher(spot: Any, env: Dict[str, str]) -> Optional[PreemptionWatcher]:
    """Return the watcher that *spot* of the run's record names, or None if the machine gives no notice."""
    if not spot:
        return None
    name = EC2 if spot is True else spot
    watcher: PreemptionWatcher = extensions.load(extensions.PREEMPTION, name, "preemption watcher")(
        env
    )
    return watcher
