"""Which try this is, where the service does not say; how often a job may lose its nodes, where it does not count."""

import json
import os
from typing import Any, Dict, Optional, Set

from runspec_agent.base import record_formats
from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store.base import Bucket


def number(bucket: Bucket, prefix: str) -> int:
    """Take the first number under *prefix* that no other try has taken, from 1, by a conditional write."""
    token = os.urandom(16).hex().encode("ascii")
    taken = [found.key[len(prefix) :] for found in bucket.listing(prefix)]
    found = max([int(name) for name in taken if name.isdigit()], default=0)
    while True:
        found += 1
        if bucket.claim("{}{}".format(prefix, found), token) == token:
            return found


def read_record(bucket: Bucket, at: str) -> Dict[str, Any]:
    """Return the record of the run at *at*. Raises Failure when it is not there any more, or of a newer version."""
    found = bucket.get(at + "record.json")
    if found is None:
        raise Failure("the run {} has been destroyed".format(at.split("/")[1]), USAGE)
    return record_formats.check(
        json.loads(found.decode("utf-8")), record_formats.RUN, at + "record.json"
    )


class Lost:
    """The tries of a task that ended without a failure of its own: preempted, or a node was lost.

    A try that never began is none: for want of a node that starts, a service may count many. The record's
    `spot_attempts` is how many there may be, with the last. Failures count by themselves: `failures`.
    """

    def __init__(
        self, bucket: Bucket, at: str, record: Dict[str, Any], place: TaskIdentity
    ) -> None:
        self.bucket, self.place = bucket, place
        self.most: Optional[int] = record.get("spot_attempts")
        self._failures = "{}failures/{}-".format(at, place.task)
        self._begun = "{}begun/{}/".format(at, place.task)

    def too_often(self) -> Optional[str]:
        """Say that this try is not to begin, and why; else note that it has."""
        if self.place.attempt > 1:
            why = self._why()
            if why is not None:
                return why
        self.bucket.put(self._begun + str(self.place.attempt), b"")
        return None

    def _why(self) -> Optional[str]:
        count = self._count(self.place.attempt - 1) if self.most is not None else 0
        if self.most is None or count < self.most:
            return None
        return "{} tries have lost their nodes, and retry.spot_attempts is {}".format(
            count, self.most
        )

    def again(self) -> bool:
        """Say whether another try may follow this one, which has failed or was lost."""
        failed = self._failed()
        if self.place.attempt in failed:
            return True
        return self.most is None or self._count(self.place.attempt) < self.most

    def _count(self, last: int) -> int:
        """Return how many tries have begun and did not fail, up to the try *last*."""
        names = [found.key[len(self._begun) :] for found in self.bucket.listing(self._begun)]
        begun = {int(name) for name in names if name.isdigit()}
        return len({number for number in begun - self._failed() if number <= last})

    def _failed(self) -> Set[int]:
        """Return the tries that failed: their notes are TASK-RANK/TRY-CODE."""
        names = [found.key.rpartition("/")[2] for found in self.bucket.listing(self._failures)]
        return {int(name.partition("-")[0]) for name in names}
