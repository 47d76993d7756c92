"""Count failures in the store, one record for each, and decide whether another attempt follows."""

import json
import sys
from typing import Any, Dict, Mapping, Optional

from runspec_agent.base import retry_rules
from runspec_agent.base.job_env import LOST, STOPPED, NoSpace
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.retry import stop_request
from runspec_agent.store.base import Bucket

KILLED = 137  # the exit code after SIGKILL
AGAIN = LOST  # the exit code that makes a service start another attempt


class Failures:
    """The failures of a run's nodes. *at* is the run's prefix in the store."""

    def __init__(self, bucket: Bucket, at: str, record: Dict[str, Any]) -> None:
        self.bucket, self.root, self.record = bucket, at, record
        self.at = at + "failures/"
        self.oom = at + "oom/{}/{}/"  # has the ranks of nodes of an attempt that ran out of memory
        self.over = at + "over/"  # names TASK-CODE of tasks that a rule of `retry.on` has ended

    def judge(
        self,
        identity: TaskIdentity,
        code: int,
        together: Optional[int] = None,
        last: bool = False,
        reason: Optional[str] = None,
    ) -> int:
        """Record a failure with *code*, and return this node's exit code: AGAIN if another attempt follows.

        *last*: none follows, although there may be one left.
        *reason* is one of `retry_rules`, if there is one.
        *together* is the number of an attempt whose nodes succeed or fail together: their failures count as one.
        """
        mine = "{}{}-{}/".format(self.at, identity.task, identity.rank)
        text = json.dumps({"code": code}).encode()
        self._put(mine + "{}-{}".format(identity.attempt, code), text)
        counted = mine
        if together is not None:
            counted = "{}{}-all/".format(self.at, identity.task)
            self._put(counted + str(together), text)
        count = sum(1 for _ in self.bucket.listing(counted))
        reason = reason or self._oom(identity)
        if count < self.record["attempts"] and retry_rules.is_final(self.record, code, reason):
            return self.end(identity, code, "failed with {}{}".format(code, _named(reason)))
        if count < self.record["attempts"] and not last:
            said = "runspec: failed with {}{}; this was attempt {} of {}"
            print(
                said.format(code, _named(reason), count, self.record["attempts"]), file=sys.stderr
            )
            sys.stderr.flush()
            return AGAIN
        stop_request.mark_failed(self.bucket, self.root, identity, self.record)
        return self.shown(code)

    def note_oom(self, identity: TaskIdentity) -> None:
        """Record that this node ran out of memory, also for the node that judges the attempt."""
        self._put(self.oom.format(identity.task, identity.attempt) + str(identity.rank), b"")

    def _oom(self, identity: TaskIdentity) -> Optional[str]:
        if not retry_rules.asks_for(self.record, retry_rules.OOM):
            return None
        noted = self.bucket.listing(self.oom.format(identity.task, identity.attempt))
        return retry_rules.OOM if any(True for _ in noted) else None

    def end(self, identity: TaskIdentity, code: int, why: str) -> int:
        """Record that a rule ends the task, also for services that look at no exit codes; return this node's code.

        The first node decides for all nodes of a task whose service starts them together.
        """
        if identity.rank == 0:
            self._put("{}{}-{}".format(self.over, identity.task, code), b"")
        print("runspec: {}: retry.on says stop".format(why), file=sys.stderr)
        sys.stderr.flush()
        stop_request.mark_failed(self.bucket, self.root, identity, self.record)
        return self.shown(code)

    def has_failed(self, identity: TaskIdentity, attempt: int) -> bool:
        """Return whether an *attempt* of this node is recorded as a failure."""
        mine = "{}{}-{}/{}-".format(self.at, identity.task, identity.rank, attempt)
        return any(True for _ in self.bucket.listing(mine))

    def rule_of(self, identity: TaskIdentity) -> Mapping[str, Any]:
        """Return the rule by which another attempt follows this one, if a node of it has failed and there is one."""
        begin = "{}{}-".format(self.at, identity.task)
        for entry in self.bucket.listing(begin):  # of each node: RANK/ATTEMPT-CODE
            rank, _, end = entry.key[len(begin) :].partition("/")
            attempt, _, code = end.partition("-")
            if rank.isdigit() and attempt == str(identity.attempt):
                return retry_rules.find_rule(self.record, int(code), self._oom(identity))
        return {}

    def last(self, identity: TaskIdentity) -> Optional[int]:
        """Return the exit code of the last failure of this node, or None."""
        mine = "{}{}-{}/".format(self.at, identity.task, identity.rank)
        names = [entry.key[len(mine) :].split("-") for entry in self.bucket.listing(mine)]
        codes = {int(attempt): int(code) for attempt, code in names}
        return codes[max(codes)] if codes else None

    def ended_with(self, task: int) -> Optional[int]:
        """Return the exit code with which an attempt of *task* has ended it by a rule, or None.

        Azure Batch counts attempts alone, and starts the next one all the same.
        """
        if not self.record.get(retry_rules.RULES):
            return None
        prefix = "{}{}-".format(self.over, task)
        codes = [int(entry.key[len(prefix) :]) for entry in self.bucket.listing(prefix)]
        return codes[0] if codes else None

    def _put(self, key: str, text: bytes) -> None:
        try:
            self.bucket.put(key, text)
        except NoSpace:  # the name says enough
            self.bucket.put(key, b"")

    def shown(self, code: int) -> int:
        """Return the exit code for the service after the last attempt: none that the service acts upon.

        A service that stops a sweep at the codes in `stops` treats AGAIN like any other code; the end record has the
        real one. For a service whose status is read with end records, STOPPED would look like a reclaimed machine, and
        KILLED, with `repeats_killed`, like a container that was killed with its agent.
        """
        if code == self.record.get("stops"):
            return AGAIN
        hidden = (AGAIN, STOPPED) if self.record.get("ends") else (AGAIN,)
        return (
            1 if code in hidden or (code == KILLED and self.record.get("repeats_killed")) else code
        )


def _named(reason: Optional[str]) -> str:
    return " ({})".format(reason) if reason else ""
