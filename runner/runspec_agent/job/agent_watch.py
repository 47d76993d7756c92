"""Watch over the agent from its parent process, and count an agent that was killed as a failure.

A service knows only the exit code of a container, and 137 may be that of a program. So the parent of a killed agent
records the end of the attempt, and exits with the code by which the service starts another one, if there is one left.
On Slurm and on a user's own machine, the batch script and the supervisor do this.
"""

import json
import os
import sys
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from runspec_agent.base import end_causes, files, process, program_hooks
from runspec_agent.base.failure import Failure
from runspec_agent.base.process import STOPS, Signals
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.job.fork import Forked
from runspec_agent.retry import end_record
from runspec_agent.retry.end_record import End
from runspec_agent.retry.exit_barrier import ExitBarrier
from runspec_agent.retry.failure_count import AGAIN, Failures
from runspec_agent.retry.retry_rounds import RetryRound
from runspec_agent.store.base import Bucket
from runspec_agent.usage import oom_kills
from runspec_agent.usage.oom_kills import OomKills

ASLEEP_S = 60.0  # at most between two looks; the end of the agent and each signal interrupt it
SIGNALLED = 128


class Begun(NamedTuple):
    """The attempt that an agent has begun, its temporary folder, and its retry round, if it has joined one."""

    place: TaskIdentity
    folder: str
    round: Optional[int]


class Watch:
    """A pipe by which the agent tells its parent which attempt it has begun."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def note(self, begun: Begun) -> None:
        """Called by the agent, a few times at most."""
        os.write(self._write, json.dumps(begun).encode("ascii") + b"\n")

    def begun(self) -> Optional[Begun]:
        """Return what the agent noted last, after its end."""
        os.close(self._write)
        with os.fdopen(self._read, "rb") as stream:
            lines = stream.read().splitlines()
        if not lines:
            return None
        identity, *more = json.loads(lines[-1].decode("ascii"))
        return Begun(TaskIdentity(*identity), *more)


def run(work: Callable[[Watch], int], signals: Signals) -> Tuple[int, Optional[Begun]]:
    """Do *work*, an agent's, in a fork of this process, and pass *signals* on to it.

    Return its exit code, which is negative if a signal killed it, and the attempt that it had begun.
    """
    process.adopt_orphans()
    watch = Watch()
    child = Forked(signals, lambda: work(watch))
    while child.code is None:
        for number in signals.wait(ASLEEP_S):
            child.send(number)
        process.reap((child,))
    begun = watch.begun()
    if child.code < 0:
        process.kill_rest()
        if begun is not None:
            files.remove_tree(begun.folder)
    return child.code, begun


def exit_code(
    bucket: Bucket,
    at: str,
    record: Dict[str, Any],
    code: int,
    begun: Optional[Begun],
    kills: Optional[OomKills] = None,
) -> int:
    """Return the exit code of this node for what `run` returned; the end of a killed agent is recorded.

    An agent that is killed counts as a failure, as if its program had been killed; *kills* are those since it began.
    In an elastic job, it is a lost node, which comes back. Where the store refuses to count it, no other attempt
    follows, which could go on for ever.
    """
    if code >= 0:
        return code
    killed = SIGNALLED - code
    if begun is None or -code in STOPS:
        return killed
    try:
        if oom_kills.explain(kills, killed):
            Failures(bucket, at, record).note_oom(begun.place)
        return _recorded(bucket, at, record, killed, begun)
    except Failure as failure:
        print("runspec: the failure cannot be counted: {}".format(failure), file=sys.stderr)
        return killed


def _recorded(bucket: Bucket, at: str, record: Dict[str, Any], killed: int, begun: Begun) -> int:
    identity, end = begun.place, end_record.find(bucket, at, begun.place)
    if end is None:
        why = "the agent was killed by signal {}".format(killed - SIGNALLED)
        print("runspec: {}".format(why), file=sys.stderr)
        setup_s = program_hooks.took_s(os.path.join(begun.folder, program_hooks.FILE))
        end = End(killed, end_causes.KILLED, why, setup_s)
        end_record.write(bucket, at, identity, end, "")
    elif end.cause not in end_causes.OF_PROGRAM or end.code == 0:
        return end.code
    if record.get("elastic"):
        return AGAIN
    return _judged(bucket, at, record, begun, end.code, end.cause)


def _judged(
    bucket: Bucket, at: str, record: Dict[str, Any], begun: Begun, code: int, cause: str
) -> int:
    """Count the failure as the agent would have done, tell the other nodes, and return the exit code of this node."""
    identity, nodes = begun.place, record["nodes"]
    if record["shape"] == "nodes" and identity.rank > 0:  # the first node decides
        prefix = "{}gang/{}/{}/".format(at, identity.task, identity.attempt)
        ExitBarrier(bucket, prefix, identity.rank, nodes).tell(code)
        return code
    reason = cause if cause in (end_causes.TIMEOUT, end_causes.SETUP) else None
    number = Failures(bucket, at, record).judge(identity, code, begun.round, reason=reason)
    if begun.round is not None:
        prefix = "{}rounds/{}/".format(at, identity.task)
        why = "node {} exited with {}".format(identity.rank, number)
        together = RetryRound(bucket, prefix, identity.rank, nodes, begun.round)
        if together.decide(number, why).code == AGAIN:
            return AGAIN
    return number
