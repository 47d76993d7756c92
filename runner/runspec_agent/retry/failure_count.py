"""Whether a failure is to be tried again: failures are counted in the store, one note for each."""

import json
import sys
from typing import Any, Dict, Optional

from runspec_agent.base.job_env import LOST
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store.base import Bucket

AGAIN = LOST  # the code that services are told to try again after


class Failures:
    """Judges the failures of a run's nodes. *at* is where the run lies in the store."""

    def __init__(self, bucket: Bucket, at: str, record: Dict[str, Any]) -> None:
        self.bucket, self.record = bucket, record
        self.at = at + "failures/"

    def judge(self, place: TaskIdentity, code: int, together: Optional[int] = None) -> int:
        """Note a failure with *code*; return what the service is told, AGAIN where it is to be tried once more.

        *together* is the number of a try in which all nodes of the task fail or succeed at once: then that is
        one failure.
        """
        mine = "{}{}-{}/".format(self.at, place.task, place.rank)
        text = json.dumps({"code": code}).encode()
        self.bucket.put(mine + "{}-{}".format(place.attempt, code), text)
        counted = mine
        if together is not None:
            counted = "{}{}-all/".format(self.at, place.task)
            self.bucket.put(counted + str(together), text)
        count = sum(1 for _ in self.bucket.listing(counted))
        if count < self.record["attempts"]:
            said = "runspec: failed with {}; this was try {} of {}"
            print(said.format(code, count, self.record["attempts"]), file=sys.stderr)
            sys.stderr.flush()
            return AGAIN
        return self._last(code)

    def _last(self, code: int) -> int:
        """Return what the last try ends with. A program's code must not be one that the service acts upon.

        Where it ends a sweep at `stops`, it acts upon AGAIN as upon any other, and the note has the code.
        """
        if code == self.record.get("stops"):
            return AGAIN
        return 1 if code == AGAIN else code
