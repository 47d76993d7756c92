"""One node of one task, with providers that have an object store: `job.entry_point` starts it.

It claims the run, downloads inputs, builds the environment, starts the program with inside.sh, and saves outputs. The
provider has written what to do to `runs/<run>/record.json`.
"""

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from runspec_agent.base import (
    end_causes,
    files,
    process,
    program_hooks,
    record_formats,
    retry_rules,
)
from runspec_agent.base.failure import UNSAVED_CODE
from runspec_agent.base.job_env import LOST, STOPPED, USAGE, Failure, read
from runspec_agent.base.process import Child, Signals
from runspec_agent.base.task_identity import place, seat
from runspec_agent.env import program_env
from runspec_agent.job.agent_watch import Begun, Watch
from runspec_agent.job.departure import Departure
from runspec_agent.job.peers import Peers
from runspec_agent.launch import launcher_end
from runspec_agent.launch.launcher_end import TOLD
from runspec_agent.retry import attempts, end_record, exit_records, retry_rounds, stop_request
from runspec_agent.retry.end_record import End
from runspec_agent.retry.exit_barrier import ExitBarrier
from runspec_agent.retry.failure_count import AGAIN, Failures
from runspec_agent.retry.multi_instance import MultiInstanceTask
from runspec_agent.retry.retry_rounds import TOO_LONG, RetryRound, RoundOutcome
from runspec_agent.store.base import Bucket
from runspec_agent.transfer import log_uploader
from runspec_agent.transfer.log_times import LogTimes
from runspec_agent.transfer.log_uploader import Log
from runspec_agent.transfer.output_saver import Saver
from runspec_agent.transfer.store_mirror import Mirror
from runspec_agent.transfer.workdir import Workdir
from runspec_agent.usage import background, oom_kills
from runspec_agent.usage.background import Usage

if TYPE_CHECKING:
    from runspec_agent.preemption.release import Release

CANCELLED = "cancelled"  # the content of the claim if the run was cancelled before it began
RUN_PREFIX = "runs/{}/"
WHY = {
    end_causes.UNSAVED: "not all of its outputs were saved: see the log",
    end_causes.FULL: "its outputs were not saved, since the store is full",
}
LATE_S = 30.0  # at most, between the service's count of an attempt and the agent's


class Agent:
    """The work of a node, from the claim of the run to the last save."""

    def __init__(
        self,
        bucket: Bucket,
        env: Dict[str, str],
        crew: Optional[MultiInstanceTask],
        record: Dict[str, Any],
    ) -> None:
        self.began = time.monotonic()
        self.bucket = bucket
        self.env = env
        self.at = RUN_PREFIX.format(env["RUNSPEC_RUN"])
        self.record = record
        self.watch: Optional[Watch] = None  # the watch of the process that has started this one
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
        self.departure = Departure(env, self.record, print_line)
        self.own = True  # whether the exit code is the program's own
        self.cause = end_causes.AGENT  # what ends this node
        self.ended_with: Optional[int] = (
            None  # the code of the program, or 1 if its outputs are not saved
        )
        self.unsaved = ""  # the cause, if not all outputs are saved
        self.failed_with: Optional[int] = (
            None  # the exit code of the program, before another one replaced it
        )
        self.setup_s: Optional[int] = None  # how long the setup took, once it has ended
        self.begun, self.own_place = False, self.place  # as the service counts, also if elastic
        self.saver: Optional[Saver] = None  # saves outputs that are not published yet
        self.usage: Optional[Usage] = None
        self.release: Optional[Release] = None  # of a node of an elastic job

    def run(self, argv: List[str], signals: Signals) -> int:
        try:
            claim = self.at + self.env.get("RUNSPEC_CLAIM", "claim")
            holder = record_formats.holder(self.bucket.claim(claim, self.place.job.encode()), claim)
            if holder == self.place.job:
                return self._work(argv, signals)
        finally:
            self.setup_s = program_hooks.took_s(os.path.join(self.folder, program_hooks.FILE))
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

    def _work(self, argv: List[str], signals: Signals) -> int:
        """Run this node in the job that has claimed the run, unless its task is to end before."""
        if self._stopped():
            print_line("{}, leaving".format(stop_request.WHY))
            return self._leave_stopped()
        ended = self._ended_before()
        if ended is not None:
            return ended
        self._begin(signals)
        if self._follows_loss():
            return Failures(self.bucket, self.at, self.record).end(
                self.place, LOST, "the attempt before was lost"
            )
        if self._is_halted():
            return self._halt()
        if self.record.get("elastic"):
            return self._elastic(argv, signals)
        if self.record["shape"] == "array" and self.record["nodes"] > 1:
            code = self._in_step(argv, signals)
        else:
            code = self.judge(self._together(argv, signals))
        if code == STOPPED and self._is_halted():
            return self._halt()
        if code == STOPPED and self.record.get("repeats_stopped") and self._stopped():
            return self._leave_stopped()
        if code == 0:
            stop_request.unmark(self.bucket, self.at, self.place, self.record)
        return self._published(code)

    def _stopped(self) -> bool:
        """Return whether this task was stopped; only tasks of a sweep can be stopped separately."""
        return bool(self.record["sweep"]) and stop_request.is_stopped(
            self.bucket, self.at, self.index
        )

    def _leave_stopped(self) -> int:
        """Return the exit code of a task that was stopped: not STOPPED if the service repeats it."""
        if not self.record.get("repeats_stopped"):
            return STOPPED
        self.cause, self.failed_with = end_causes.STOPPED, STOPPED
        if not self.begun and self.place.attempt:  # the end tells this task from one that failed
            self.begun, self.own_place = True, self.place
        return 1

    def _is_halted(self) -> bool:
        return stop_request.is_halted(self.bucket, self.at, self.index, self.record)

    def _halt(self) -> int:
        """Return the exit code of a node that ends because of `max_failed`.

        Services that know nothing else must not start it again; the end record has the real one.
        """
        self.cause, self.failed_with = end_causes.STOPPED, STOPPED
        print_line(stop_request.HALTED)
        return 1 if self.record.get("ends") else STOPPED

    def _ended_before(self) -> Optional[int]:
        """Return the exit code of an attempt that is not to begin, because a rule has ended the task before."""
        failures = Failures(self.bucket, self.at, self.record)
        ended = failures.ended_with(self.index)
        if ended is None:
            return None
        print_line("retry.on has ended this task, with {}: leaving".format(ended))
        return failures.shown(ended)

    def _follows_loss(self) -> bool:
        """Return whether the attempt before was lost, and a rule wants none after that.

        The first node decides. On Slurm, `attempts.Lost` has ended the task before.
        """
        if self.place.rank or not retry_rules.is_final(self.record, LOST, retry_rules.LOST):
            return False
        failures, before = Failures(self.bucket, self.at, self.record), self.place.attempt - 1
        return before > 0 and not failures.has_failed(self.place, before)

    def _begin(self, signals: Signals) -> None:
        """Find out the number of this attempt, and upload the log from here on."""
        if "stop_s" in self.record:
            self.heed = stop_request.StopPoller(
                lambda: self._stopped() or self._is_halted(), self.record["stop_s"]
            )
            self.heed.start()
        if "RUNSPEC_ATTEMPT" not in self.env:
            self.place = self.place._replace(attempt=self._number(signals))
        self.begun, self.own_place = True, self.place
        self._note_begin(None)
        self.ends = exit_records.of_node(self.bucket, self.at, self.place, self.env)
        if self.ends is not None:
            exit_records.StopListener(
                self.ends, self.record["nodes"], self.departure.remind
            ).start()
        self.departure.hold(self.bucket, self.at, self.place, self.say)
        path = self.env.get("RUNSPEC_LOG")
        if path:
            key = log_uploader.key_of(self.at, self.place)
            self.log = Log(self.bucket, path, key, self.times)
            self.log.start()
        self._measure()

    def _note_begin(self, together: Optional[int]) -> None:
        if self.watch is not None:
            self.watch.note(Begun(self.own_place, self.folder, together))

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
            number = crew.number(signals)
            crew.start()
            return number
        prefix = "{}tries/{}-{}/".format(self.at, self.place.task, self.place.rank)
        number = attempts.number(self.bucket, prefix)
        if crew is not None:
            crew.open(number, signals)
        return number

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
                log_uploader.wait_for_copy(self.log.path)
                if last:
                    self.log.finish()
                else:
                    self.log.once()
            except (OSError, Failure) as error:
                print_line("the log cannot be saved: {}".format(error))

    def mark_failed(self) -> None:
        """Count this task as failed, although its program did not: see `max_failed`."""
        if self.begun:
            stop_request.mark_failed(self.bucket, self.at, self.place, self.record)

    def note(self, code: int, why: Optional[str]) -> int:
        """Record how this node has ended, and return its exit code: a success that cannot be recorded is none."""
        leaving = self.departure.leaving
        own = code if self.failed_with is None or code == 0 else self.failed_with
        if self.cause == end_causes.RELEASED or (self.cause == end_causes.PEER and own):
            own = STOPPED  # of a program that was told to end; the exit code tells the service what to do
        why = why or (str(leaving) if leaving else WHY.get(self.unsaved))
        if self.cause == end_causes.SETUP:
            why = program_hooks.FAILED.format(own)
        end = End(own, self.cause, why, self.setup_s)
        try:
            if self.ends is not None:
                more = {} if self.setup_s is None else {"setup_s": self.setup_s}
                self.ends.note(code, end.why, own=own, cause=self.cause, **more)
            if self.begun and self.record.get("ends"):
                name = exit_records.name(self.env)
                end_record.write(self.bucket, self.at, self.own_place, end, name)
        except Failure as failure:
            print_line("the exit code cannot be recorded: {}".format(failure))
            return code or (failure.code if self.record.get("ends") else 0)
        return code

    def _together(self, argv: List[str], signals: Signals) -> int:
        """Run this node, and tell the other nodes how it ended, also if it fails before the program starts."""
        gang = self.gang = self._gang()
        if gang is None:
            return self._run(argv, signals)
        try:
            code = self._run(argv, signals)
        except Failure as failure:
            gang.end(failure.code, signals, wait=True)
            raise
        if self.place.rank > 0:
            self.keep()  # when the first node learns of the end, the service ends all nodes
        gang.full = self.unsaved == end_causes.FULL
        ended = gang.end(code, signals, self.record["launch"] == "none", self.own)
        held = self.departure.excused(ended, signals)
        is_of_another = gang.own and (ended != code or not self.own)
        self.own = gang.own and held == ended
        if held != code:
            self.ended_with = held
        if held != ended:
            self.cause = end_causes.RECLAIMED
        elif is_of_another:  # without exit records, that node's end stands for the job
            self.cause = end_causes.PROGRAM if self.ends is None else end_causes.PEER
        elif ended != code and ended == TOO_LONG:
            self.cause = end_causes.TIMEOUT  # all nodes have the same
        elif ended != code:
            self.cause = end_causes.STOPPED if signals.stopping else end_causes.PEER
        return held

    def _elastic(self, argv: List[str], signals: Signals) -> int:
        """Run this node as a member of an elastic job: see `elastic.node`."""
        # Imported only where it is used, since a zipapp compiles its modules at each start.
        from runspec_agent.elastic.member import timing
        from runspec_agent.elastic.node import Elastic
        from runspec_agent.preemption.release import Release

        self.place = seat(self.place, self.record)
        index = self.place.task * self.record["elastic"]["max"] + self.place.rank
        self.release = Release(self.bucket.apart(), self.at, index, timing(os.environ, 0.0).beat_s)
        if self.release.look():
            return self._leave()
        self.record = dict(self.record, nodes=self.record["elastic"]["max"])
        self.departure.listen()
        self.release.start()
        node = Elastic(self, argv, signals)
        try:
            code = node.run()
        finally:
            self.release.finish()
            self.departure.finish()
        if node.leaving and code == STOPPED and self.release.notice:
            return self._leave()
        self.departure.stay(signals)
        if node.leaving and code == STOPPED:
            self.cause = end_causes.RECLAIMED if self.departure.notice() else end_causes.STOPPED
            return code
        own = end_causes.PROGRAM if self._set_up() is None else end_causes.SETUP
        self.cause = end_causes.TIMEOUT if node.timed_out else own
        self.failed_with = code
        return Failures(self.bucket, self.at, self.record).shown(code)

    def notice(self) -> Optional[str]:
        """Return why an elastic node has to leave, if there is a reason other than a signal."""
        released = None if self.release is None else self.release.notice
        return released or self.departure.notice()

    def is_released(self) -> bool:
        """Return whether an elastic node was released, as the store says now."""
        return self.release is not None and self.release.look_now()

    def _leave(self) -> int:
        """Return the exit code of a node that was released. Services that know nothing else must not start it again."""
        self.cause = end_causes.RELEASED
        self.say("this node was released")
        return 0 if self.record.get("ends") else STOPPED

    def late(self) -> Optional[str]:
        """Return a message that an elastic node has been here for as long as `timeout`, if it has."""
        self.departure.remind(now=False)
        return self.departure.late()

    def _in_step(self, argv: List[str], signals: Signals) -> int:
        """Run this node of an array job together with the others, in retry rounds: see `retry_rounds`."""
        prefix = "{}rounds/{}/".format(self.at, self.place.task)
        rank, nodes, attempt = self.place.rank, self.record["nodes"], self.place.attempt
        last = attempt == self.record.get("tries")
        joined = self.round = retry_rounds.join(self.bucket, prefix, rank, nodes, attempt, last)
        if joined.verdict is not None:
            print_line("{}: this node has nothing to do".format(joined.verdict.why))
            return joined.verdict.code
        self._note_begin(joined.number)
        if self.record.get("limit_s"):
            joined.deadline = self.began + self.record["limit_s"] - LATE_S
        joined.start()
        try:
            own_code = code = self._run(argv, signals)
            if code == STOPPED and not (self.own or signals.stopping or self.departure.notice()):
                code = AGAIN  # a launcher on another node was told to end
            if not self._excused(code):
                verdict = joined.blame(signals)
                if verdict is not None:
                    self._follow(verdict, end_causes.PEER)
                code = self.judge(code) if verdict is None else verdict.code
            joined.timed_out = self.cause == end_causes.TIMEOUT
            code = joined.end(code, signals, is_own=self.own)
            if own_code == 0 and code:
                self._follow(
                    joined.verdict, end_causes.STOPPED if signals.stopping else end_causes.PEER
                )
        except BaseException as error:  # it is raised again, after the other nodes were told
            joined.end(error.code if isinstance(error, Failure) else 1, signals)
            raise
        return STOPPED if self.departure.notice() and code == AGAIN else code

    def _follow(self, verdict: Optional[RoundOutcome], cause: str) -> None:
        """Set the cause of a node that another one has ended: *cause*, or the timeout, which all nodes share."""
        self.cause = cause
        if verdict is not None and verdict.timed_out:
            self.cause, self.failed_with = end_causes.TIMEOUT, TOO_LONG

    def _run(self, words: List[str], signals: Signals) -> int:
        try:
            saver, mirror = self._prepared(signals)
            grace_s = read(self.env).grace_s
            argv = words or [files.local(word) for word in self.record.get("argv") or ()]
            script = self.workdir.unpack_script(argv)
        except OSError as error:
            raise Failure("the job cannot be prepared: {}".format(error), USAGE) from error
        env = {name: files.local(value) for name, value in self.env.items()}
        child = Child(["/bin/sh", script, *argv], env, self.workdir.cwd)
        kills = oom_kills.watch(self.record)
        saver.start()
        if mirror is not None:
            mirror.start()
        try:
            code = self._program(child, signals, grace_s)
        finally:
            lost = saver.finish()
            if mirror is not None:
                mirror.finish()
        if oom_kills.explain(kills, code) and self.own:
            Failures(self.bucket, self.at, self.record).note_oom(self.place)
        for line in lost:
            print_line("not saved: {}".format(line))
        if lost:
            self.unsaved = end_causes.FULL if saver.full else end_causes.UNSAVED
        self.saver = None if lost else saver
        if code == 0:
            self._published(code)
        if self.departure.leaving is not None:
            self.departure.stay(signals)
        if lost and code == 0:
            self.cause, code = self.unsaved, UNSAVED_CODE
        self.ended_with = code
        return code

    def in_full_store(self) -> Optional[int]:
        """Return the exit code of a node whose program had ended before a full store refused a record of that.

        For an attempt that cannot begin, it is the code of the failure before; None if there was none.
        """
        failures = Failures(self.bucket, self.at, self.record)
        code = failures.last(self.place) if self.ended_with is None else self.ended_with
        if code is None:
            return None
        self.failed_with = code
        return failures.shown(code)

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
        departure = self.departure
        departure.listen()
        try:
            code = process.run(
                child,
                signals,
                grace_s,
                lambda: departure.look(signals, self.place.rank, self.round, self.crew, self.gang),
            )
        except Failure as left:
            code = left.code
        finally:
            departure.finish()
            if self.usage is not None:
                self.usage.over.set()  # its last upload takes place beside the next steps
        leaving = departure.leaving
        self.own = leaving is None and launcher_end.is_own(code, signals, self.env.get(TOLD))
        if leaving is not None:
            self.cause = leaving.cause
            if leaving.cause == end_causes.TIMEOUT:  # also if a signal came after the timeout
                code = leaving.code
        elif self.own:
            self.cause = end_causes.PROGRAM if self._set_up() is None else end_causes.SETUP
        else:
            self.cause = end_causes.STOPPED if signals.stopping else end_causes.PEER
        return 0 if self.cause == end_causes.PEER and leaving and child.code == 0 else code

    def _set_up(self) -> Optional[int]:
        """Return the exit code of the setup if it failed on this node, so that the program did not run."""
        return program_hooks.failed(self.env.get(program_hooks.ENDED))

    def _prepared(self, signals: Signals) -> Tuple[Saver, Optional[Mirror]]:
        self.workdir.mounted(self.place.task)
        outputs = self.workdir.outputs(self.place, self.at + "outputs/")
        mirror = self._words(signals)
        if "reach" in self.record:
            self._peers(signals).check_reach()
        if "check_gpus" in self.record:
            from runspec_agent.job import gpu_check  # used by smoke tests only

            gpu_check.check(self.record["check_gpus"], self.env, self.place.rank)
        return outputs, mirror

    def _gang(self) -> Optional[ExitBarrier]:
        if self.record["shape"] != "nodes":
            return None
        prefix = "{}gang/{}/{}/".format(self.at, self.place.task, self.place.attempt)
        rank = self.place.rank
        # A launcher ends its nodes itself, and the service ends the others with the first.
        looks = rank == 0 and self.record["launch"] == "none"
        gang = ExitBarrier(self.bucket, prefix, rank, self.record["nodes"], looks)
        gang.start()
        return gang

    def _words(self, signals: Signals) -> Optional[Mirror]:
        """Set the job's variables, and return the mirror of the rendezvous folder if there are several nodes."""
        identity = self.place._replace(attempt=self._attempt())
        program_env.fill(self.env, self.record, identity, self.folder)
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
        identity = self.place._replace(attempt=self._attempt())
        return Peers(self.bucket, self.at, self.record, self.env, identity, signals, self._failed)

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
        self.failed_with = code
        together = None if self.round is None else self.round.number
        # If the store is full, there would be no room for another attempt either.
        full = self.unsaved == end_causes.FULL or (self.gang is not None and self.gang.full)
        reason = self.cause if self.cause in (end_causes.TIMEOUT, end_causes.SETUP) else None
        failures = Failures(self.bucket, self.at, self.record)
        return failures.judge(self.place, code, together, full, reason)

    def _excused(self, code: int) -> bool:
        """Return whether *code* does not count as a failure of this node."""
        leaving = self.departure.leaving
        was_told = leaving is not None and code == leaving.code and self.cause != end_causes.TIMEOUT
        was_told = (
            was_told and not self.own
        )  # on the first node, it may be the code of another node
        return code == 0 or was_told or (code in (STOPPED, LOST) and not self.own)


def print_line(text: str) -> None:
    line = text.replace("\n", "\\n")  # file names may contain line breaks
    print("runspec: {}".format(line), file=sys.stderr)
    sys.stderr.flush()
