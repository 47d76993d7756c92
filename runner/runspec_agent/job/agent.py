"""One node of one task, with providers that have an object store: `job.entry_point` starts it.

It claims the run, downloads inputs, builds the environment, starts the program with inside.sh, and saves outputs. The
provider has written what to do to `runs/<run>/record.json`.
"""

import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from runspec_agent.base import files, process, record_formats
from runspec_agent.base.job_env import LOST, STOPPED, USAGE, Failure, read
from runspec_agent.base.process import Child, Signals
from runspec_agent.base.task_identity import place, seat
from runspec_agent.env import program_env
from runspec_agent.job.peers import Peers
from runspec_agent.launch import launcher_end
from runspec_agent.launch.launcher_end import TOLD
from runspec_agent.preemption.azure import ScheduledEventsWatcher
from runspec_agent.preemption.ec2 import Ec2PreemptionWatcher
from runspec_agent.preemption.hold import PreemptionHold
from runspec_agent.preemption.watcher import PreemptionWatcher
from runspec_agent.retry import attempts, exit_records, retry_rounds, stop_request
from runspec_agent.retry.exit_barrier import ExitBarrier
from runspec_agent.retry.failure_count import AGAIN, Failures
from runspec_agent.retry.multi_instance import MultiInstanceTask
from runspec_agent.retry.retry_rounds import RetryRound
from runspec_agent.store.base import Bucket
from runspec_agent.transfer.log_times import LogTimes
from runspec_agent.transfer.log_uploader import Log
from runspec_agent.transfer.output_saver import Saver
from runspec_agent.transfer.store_mirror import Mirror
from runspec_agent.transfer.workdir import Workdir
from runspec_agent.usage import background
from runspec_agent.usage.background import Usage

CANCELLED = "cancelled"  # the content of the claim if the run was cancelled before it began
RUN_PREFIX = "runs/{}/"
WATCHES: Dict[
    Any, Callable[[Dict[str, str]], PreemptionWatcher]
] = {  # they report the reclaim of a spot machine
    True: Ec2PreemptionWatcher,
    "azure": ScheduledEventsWatcher,
}
LATE_S = 30.0  # at most, between the service's count of an attempt and the agent's


class Agent:
    """The work of a node, from the claim of the run to the last save."""

    def __init__(
        self, bucket: Bucket, env: Dict[str, str], crew: Optional[MultiInstanceTask] = None
    ) -> None:
        self.began = time.monotonic()
        self.bucket = bucket
        self.env = env
        self.at = RUN_PREFIX.format(env["RUNSPEC_RUN"])
        self.record = attempts.read_record(bucket, self.at)
        self.crew = crew
        if crew is not None:
            env.update(RUNSPEC_RANK=str(crew.rank), RUNSPEC_HOST=crew.hosts[crew.rank])
        self.place = place(env, self.record)
        self.folder = files.fresh_folder("runspec-")
        self.workdir = Workdir(bucket, self.record, env, self.folder)
        self.index = self.place.task  # the task's number; for an elastic job, that of the node
        self.ends: Optional[exit_records.ExitRecords] = None
        self.log: Optional[Log] = None
        self.times: Optional[LogTimes] = None  # the index of the log
        self.gang: Optional[ExitBarrier] = None
        self.round: Optional[RetryRound] = None
        self.heed: Optional[stop_request.StopPoller] = None
        self.watch: Optional[PreemptionWatcher] = None
        self.taken: Optional[PreemptionHold] = None
        self.leaving: Optional[Failure] = None  # why the program was told to end
        self.own = True  # whether the exit code is the program's own
        self.saver: Optional[Saver] = None  # saves outputs that are not published yet
        self.usage: Optional[Usage] = None

    def run(self, words: List[str], signals: Signals) -> int:
        try:
            claim = self.at + self.env.get("RUNSPEC_CLAIM", "claim")
            holder = record_formats.holder(self.bucket.claim(claim, self.place.job.encode()), claim)
            if holder == self.place.job:
                if self._stopped():
                    print_line("{}, leaving".format(stop_request.WHY))
                    return STOPPED
                self._begin(signals)
                if self.record.get("elastic"):
                    return self._elastic(words, signals)
                if self.record["shape"] == "array" and self.record["nodes"] > 1:
                    return self._published(self._in_step(words, signals))
                return self._published(self.judge(self._together(words, signals)))
        finally:
            files.remove_tree(self.folder)
            if self.usage is not None:
                self.usage.finish()
            if self.heed is not None:
                self.heed.finish()
            if self.crew is not None:
                self.crew.finish()
        if holder == CANCELLED:
            print_line("cancelled, leaving")
            return STOPPED
        print_line("duplicate of {}, leaving".format(holder))
        return 0

    def _stopped(self) -> bool:
        """Return whether this task was stopped; only tasks of a sweep can be stopped separately."""
        return bool(self.record["sweep"]) and stop_request.is_stopped(
            self.bucket, self.at, self.index
        )

    def _begin(self, signals: Signals) -> None:
        """Find out the number of this attempt, and upload the log from here on."""
        if "stop_s" in self.record:
            self.heed = stop_request.StopPoller(self._stopped, self.record["stop_s"])
            self.heed.start()
        if "RUNSPEC_ATTEMPT" not in self.env:
            self.place = self.place._replace(attempt=self._number(signals))
        self.ends = exit_records.of_node(self.bucket, self.at, self.place, self.env)
        if self.ends is not None:
            exit_records.StopListener(self.ends, self.record["nodes"]).start()
        if self.record.get("spot") == "azure":
            key = "{}taken/{}/{}/".format(self.at, self.place.task, self.place.attempt)
            self.taken = PreemptionHold(self.bucket, key, self.place.rank, self.say)
        path = self.env.get("RUNSPEC_LOG")
        if path:
            key = "{}logs/{}/{}/{}.txt".format(self.at, *self.place[1:])
            self.log = Log(self.bucket, path, key, self.times)
            self.log.start()
        self._measure()

    def _measure(self) -> None:
        """Sample what this node uses, until it ends."""
        at = seat(self.place, self.record) if self.record.get("elastic") else self.place
        key = background.key(self.at, at.task, at.attempt, at.rank)
        name = exit_records.name(self.env)
        self.usage = Usage(self.bucket, key, name, self.env, self.folder)
        self.usage.start()

    def _number(self, signals: Signals) -> int:
        """Return the number of this attempt; the service does not provide one that all nodes of the task share."""
        crew = self.crew
        if crew is not None and crew.rank > 0:
            found = crew.number(signals)
            crew.start()
            return found
        own = "{}tries/{}-{}/".format(self.at, self.place.task, self.place.rank)
        found = attempts.number(self.bucket, own)
        if crew is not None:
            crew.open(found, signals)
        return found

    def tell(self, text: str) -> None:
        """Print *text* and upload the log later, without waiting."""
        print_line(text)

    def say(self, text: str) -> None:
        """Print *text* and upload the log now."""
        print_line(text)
        self.keep(last=False)

    def keep(self, last: bool = True) -> None:
        """Upload the log; if that fails, the message about it can only go to the service's own log."""
        if self.log is not None:
            try:
                if last:
                    self.log.finish()
                else:
                    self.log.once()
            except (OSError, Failure) as error:
                print_line("the log cannot be saved: {}".format(error))

    def note(self, code: int, why: Optional[str]) -> None:
        """Record how this node has ended, if the service needs such records and the node took part in the attempt."""
        try:
            if self.ends is not None:
                self.ends.note(code, why or (str(self.leaving) if self.leaving else None))
        except Failure as failure:
            print_line("the exit code cannot be recorded: {}".format(failure))

    def _together(self, words: List[str], signals: Signals) -> int:
        """Run this node, and tell the other nodes how it ended, also if it fails before the program starts."""
        gang = self.gang = self._gang()
        if gang is None:
            return self._run(words, signals)
        try:
            code = self._run(words, signals)
        except Failure as failure:
            gang.end(failure.code, signals, wait=False)
            raise
        if self.place.rank > 0:
            self.keep()  # when the first node learns of the end, the service ends all nodes
        code = gang.end(code, signals, self.record["launch"] == "none", self.own)
        held = code if self.taken is None else self.taken.excused(code, signals)
        self.own = gang.own and held == code
        return held

    def _elastic(self, words: List[str], signals: Signals) -> int:
        """Run this node as a member of an elastic job: see `elastic.node`."""
        # Imported only where it is used, since a zipapp compiles its modules at each start.
        from runspec_agent.elastic.node import Elastic

        self.place = seat(self.place, self.record)
        self.record = dict(self.record, nodes=self.record["elastic"]["max"])
        self._listen()
        try:
            code = Elastic(self, words, signals).run()
        finally:
            if self.watch is not None:
                self.watch.finish()
        if self.taken is not None and isinstance(self.watch, ScheduledEventsWatcher):
            self.taken.stay(self.watch, signals)
        return code

    def _listen(self) -> None:
        """Watch for notices that the spot machine will be reclaimed."""
        if self.record.get("spot"):
            self.watch = WATCHES[self.record["spot"]](self.env)
            self.watch.start()

    def notice(self) -> Optional[str]:
        """Return a message that this node is about to lose its machine, if there was a notice."""
        if self.watch is None or self.watch.notice is None:
            return None
        return "the machine will be reclaimed at {}".format(self.watch.notice)

    def _in_step(self, words: List[str], signals: Signals) -> int:
        """Run this node of an array job together with the others, in retry rounds: see `retry_rounds`."""
        prefix = "{}rounds/{}/".format(self.at, self.place.task)
        rank, nodes, attempt = self.place.rank, self.record["nodes"], self.place.attempt
        last = attempt == self.record.get("tries")
        found = self.round = retry_rounds.join(self.bucket, prefix, rank, nodes, attempt, last)
        if found.verdict is not None:
            print_line("{}: this node has nothing to do".format(found.verdict.why))
            return found.verdict.code
        if self.record.get("timeout_s"):
            found.deadline = self.began + self.record["timeout_s"] - LATE_S
        found.start()
        try:
            code = self._run(words, signals)
            if code == STOPPED and not (self.own or signals.stopping or self.notice()):
                code = AGAIN  # a launcher on another node was told to end
            if not self._excused(code):
                verdict = found.blame(signals)
                code = self.judge(code) if verdict is None else verdict.code
            code = found.end(code, signals, own=self.own)
        except BaseException as error:  # it is raised again, after the other nodes were told
            found.end(error.code if isinstance(error, Failure) else 1, signals)
            raise
        return STOPPED if self.notice() and code == AGAIN else code

    def _run(self, words: List[str], signals: Signals) -> int:
        try:
            saver, mirror = self._prepared(signals)
            grace_s = read(self.env).grace_s
            inside = self.workdir.unpacked()
        except OSError as error:
            raise Failure("the job cannot be prepared: {}".format(error), USAGE) from error
        env = {name: files.local(value) for name, value in self.env.items()}
        argv = words or [files.local(word) for word in self.record.get("argv") or ()]
        child = Child(["/bin/sh", inside, *argv], env, self.workdir.cwd)
        saver.start()
        if mirror is not None:
            mirror.start()
        try:
            code = self._program(child, signals, grace_s)
        finally:
            lost = saver.finish()
            if mirror is not None:
                mirror.finish()
        for line in lost:
            print_line("not saved: {}".format(line))
        self.saver = None if lost else saver
        if code == 0:
            self._published(code)
        if (
            self.taken is not None
            and isinstance(self.watch, ScheduledEventsWatcher)
            and self.leaving is not None
        ):
            self.taken.stay(self.watch, signals)
        return 1 if lost and code == 0 else code

    def _published(self, code: int) -> int:
        """Publish the outputs under their own paths unless another attempt follows; return *code*."""
        saver, self.saver = self.saver, None
        if saver is not None and code not in (AGAIN, STOPPED, LOST):
            for line in saver.publish():
                print_line("not published yet: {}".format(line))
        return code

    def _program(self, child: Child, signals: Signals, grace_s: float) -> int:
        """Wait until the program ends, and return its exit code.

        A program that exits with 0 after a notice may have saved half its work, as after any other SIGTERM: it gets
        another attempt. One that was stopped because another node ended waits for the other nodes.
        """
        self._listen()
        try:
            code = process.run(child, signals, grace_s, lambda: self._leave(signals))
        except Failure as left:
            code = left.code
        finally:
            if self.watch is not None:
                self.watch.finish()
            if self.usage is not None:
                self.usage.over.set()  # its last upload takes place beside the next steps
        self.own = self.leaving is None and launcher_end.is_own(code, signals, self.env.get(TOLD))
        told_by_others = self.leaving is not None and not self.notice()
        return 0 if told_by_others and child.code == 0 else code

    def _leave(self, signals: Signals) -> Optional[Failure]:
        """Return why the program has to end now, printed once; the other nodes are told."""
        if self.leaving is None:
            verdict = None if self.round is None else self.round.verdict
            notice = self.notice()
            if notice is not None:
                self.leaving = Failure(notice, STOPPED)
                if self.taken is not None:
                    self.taken.note()
            elif verdict is not None:
                self.leaving = Failure(verdict.why, verdict.code)
            elif self.crew is not None and self.crew.over:
                self.leaving = Failure("the first node has ended", STOPPED)
            if self.leaving is not None:
                print_line("{}: the program is told to end".format(self.leaving))
            if self.round is not None and signals.stopping:
                self.round.propose(*self.round.stopped())
            elif self.round is not None and self.leaving is not None:
                self.round.propose(
                    AGAIN, "the machine of node {} will be reclaimed".format(self.place.rank)
                )
        return self.leaving

    def _prepared(self, signals: Signals) -> Tuple[Saver, Optional[Mirror]]:
        self.workdir.mounted()
        outputs = self.workdir.outputs(self.place, self.at + "outputs/")
        mirror = self._words(signals)
        if "reach" in self.record:
            self._peers(signals).check_reach()
        if "check_gpus" in self.record:
            self._check_gpus()
        return outputs, mirror

    def _check_gpus(self) -> None:
        from runspec_agent.job import gpu_check  # used by smoke tests only

        gpu_check.check(self.record["check_gpus"], self.env, self.place.rank)

    def _gang(self) -> Optional[ExitBarrier]:
        if self.record["shape"] != "nodes":
            return None
        prefix = "{}gang/{}/{}/".format(self.at, self.place.task, self.place.attempt)
        gang = ExitBarrier(self.bucket, prefix, self.place.rank, self.record["nodes"])
        gang.start()
        return gang

    def _words(self, signals: Signals) -> Optional[Mirror]:
        """Set the job's variables, and return the mirror of the rendezvous folder if there are several nodes."""
        place = self.place._replace(attempt=self._attempt())
        program_env.fill(self.env, self.record, place, self.folder)
        if self.record["launch"] != "none":
            self.env[TOLD] = os.path.join(self.folder, "told")
        if self.record["nodes"] == 1 or self.record["launch"] == "none":
            self._peers(signals).write_hostfile(self.crew)
            return None
        meet = os.path.join(self.folder, "meet")
        os.mkdir(meet, 0o700)
        self.env["RUNSPEC_MEET"] = meet
        return Mirror(self.bucket, meet, "{}meet/{}/".format(self.at, self.place.task))

    def _peers(self, signals: Signals) -> Peers:
        place = self.place._replace(attempt=self._attempt())
        return Peers(self.bucket, self.at, self.record, self.env, place, signals, self._failed)

    def _attempt(self) -> int:
        """Return the number of this attempt; nodes that are retried together have the same."""
        return self.place.attempt if self.round is None else self.round.number

    def _failed(self) -> Optional[int]:
        """Return the exit code of a node that failed before the rendezvous was complete."""
        if self.round is not None:
            verdict = self.round.verdict
            return None if verdict is None else verdict.code
        return None if self.gang is None else self.gang.failed()

    def judge(self, code: int) -> int:
        """Return *code*, or AGAIN for a failure after which another attempt follows.

        A reclaimed machine and a lost node are not failures of the job.
        """
        if self._excused(code):
            return code
        together = None if self.round is None else self.round.number
        return Failures(self.bucket, self.at, self.record).judge(self.place, code, together)

    def _excused(self, code: int) -> bool:
        """Return whether *code* does not count as a failure of this node."""
        told = self.leaving is not None and code == self.leaving.code
        return code == 0 or told or (code in (STOPPED, LOST) and not self.own)


def print_line(text: str) -> None:
    line = text.replace("\n", "\\n")  # file names may contain line breaks
    print("runspec: {}".format(line), file=sys.stderr)
    sys.stderr.flush()
