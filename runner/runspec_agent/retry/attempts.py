"""The number of this attempt and the count of preempted attempts, for services that provide neither."""

import json
import os
from typing import Any, Dict, Optional, Set

from runspec_agent.base import record_formats, retry_rules
from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store.base import Bucket


def number(bucket: Bucket, prefix: str) -> int:
    """Claim the first free number from 1 under *prefix*, by a conditional write, and return it."""
    token = os.urandom(16).hex().encode("ascii")
    taken = [entry.key[len(prefix) :] for entry in bucket.listing(prefix)]
    number = max([int(name) for name in taken if name.isdigit()], default=0)
    while True:
        number += 1
        if bucket.claim("{}{}".format(prefix, number), token) == token:
            return number


def read_record(bucket: Bucket, at: str) -> Dict[str, Any]:
    """Return the record of the run at *at*. Raise Failure if it was deleted, or if a newer version wrote it."""
    content = bucket.get(at + "record.json")
    if content is None:
        raise Failure("the run {} has been destroyed".format(at.split("/")[1]), USAGE)
    try:
        record: Dict[str, Any] = dict(json.loads(content.decode("utf-8")))
    except (ValueError, TypeError, RecursionError) as error:
        text = "{}record.json is not the record of a run: {}"
        raise Failure(text.format(at, error), USAGE) from error
    parted = record.get("format") == record_formats.PARTED_RUN
    known = record_formats.PARTED_RUN if parted else record_formats.RUN
    return record_formats.check(record, known, at + "record.json")


class Lost:
    """The attempts of a task that ended without a failure of its own: it was preempted, or a node was lost.

    An attempt that never began is not counted: a service may count many while no node starts. The record's
    `spot_attempts` is the maximum, including the last. Failures are counted separately: `failure_count`.
    """

    def __init__(
        self, bucket: Bucket, at: str, record: Dict[str, Any], identity: TaskIdentity
    ) -> None:
        self.bucket, self.record, self.place = bucket, record, identity
        self.most: Optional[int] = record.get("spot_attempts")
        self._failures = "{}failures/{}-".format(at, identity.task)
        self._begun = "{}begun/{}/".format(at, identity.task)

    def too_often(self) -> Optional[str]:
        """Return why this attempt must not begin; otherwise record that it has begun, and return None."""
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
        if retry_rules.is_final(self.record, LOST, retry_rules.LOST):
            return "the attempt before was lost: retry.on says stop"
        were = "attempt was" if count == 1 else "attempts were"
        return "{} {} preempted, and retry.spot_attempts is {}".format(count, were, self.most)

    def leave_out(self) -> None:
        """Count this attempt no more: its node was released, and not lost."""
        self.bucket.delete(self._begun + str(self.place.attempt))

    def has_failed(self) -> bool:
        """Return whether this attempt is recorded as a failure of its own."""
        return self.place.attempt in self._failed()

    def again(self) -> bool:
        """Return whether another attempt may follow this one, which has failed or was preempted."""
        failed = self._failed()
        if self.place.attempt in failed:
            return True
        return self.most is None or self._count(self.place.attempt) < self.most

    def _count(self, last: int) -> int:
        """Return how many attempts up to *last* have begun and did not fail."""
        names = [entry.key[len(self._begun) :] for entry in self.bucket.listing(self._begun)]
        begun = {int(name) for name in names if name.isdigit()}
        return len({number for number in begun - self._failed() if number <= last})

    def _failed(self) -> Set[int]:
        """Return the attempts that failed: their records are named TASK-RANK/ATTEMPT-CODE."""
        names = [entry.key.rpartition("/")[2] for entry in self.bucket.listing(self._failures)]
        return {int(name.partition("-")[0]) for name in names}
