"""`batch -- WORD...`: the process that a batch script of Slurm becomes, on the first node and outside any container.

It starts WORD... (the job's agent, in a container or not, or srun, which starts one on each node), passes signals on,
enforces the timeout, records how the attempt ended, and requeues the job if another attempt follows.

Measured behaviour of Slurm 22.05, where "all" are all processes of the job on all nodes, in any session:

* scancel JOB, scontrol requeue, the time limit, a lost node and the end of a preemption's GraceTime send SIGCONT and
  SIGTERM to all, and SIGKILL KillWait later.
* scancel --signal=TERM JOB, --signal=TERM@S and the beginning of a GraceTime reach the steps that srun has started,
  and no process if there are none. All processes of a step are reached, so the program before its agent, and also
  mpirun, which leaves its ranks no time. So this process stops the nodes by a record in the store.
* scancel --signal=TERM --batch JOB and --signal=B:TERM@S reach this process alone.
* SIGTERM at srun ends its step at once, so srun is never sent one here.
* After scontrol requeue has ended with 0, the job is queued again whatever the script ends with, and at once.

It needs RUNSPEC_RUN, RUNSPEC_STORE, RUNSPEC_JOB (SLURM_ARRAY_JOB_ID or SLURM_JOB_ID), RUNSPEC_TASK, RUNSPEC_ATTEMPT
(SLURM_RESTART_COUNT + 1) and SLURM_JOB_ID, and accepts:

* RUNSPEC_TIMEOUT_S, after which the program gets SIGTERM, RUNSPEC_GRACE_S for it, and the agents 120 s more to save
* RUNSPEC_ENDS, and RUNSPEC_CLAIM for an array of a split sweep
* RUNSPEC_SECRETS: the key of a file with the secrets, `NAME=value` and a NUL after each
* RUNSPEC_ENVIRONMENT: a folder in the workspace, where the requirements are installed once for all nodes
* RUNSPEC_BELOW=@: the paths of the job are below a temporary folder in TMPDIR
* RUNSPEC_NODE_NAMES: the names of the nodes in the order of ranks, separated by commas
* RUNSPEC_WORDS, such as RUNSPEC_RANK=SLURM_NODEID: variables of runspec that are those of the service
* RUNSPEC_MPI: pmix or pmi2 starts the ranks by `srun --overlap --mpi=...` on the first node instead of mpirun

`runs/RUN/ends/TASK/ATTEMPT/RANK` says how a node has ended, and `.../batch` how the attempt has: `{"code": 1,
"why": null, "node": "node1", "began_s": 1.0, "ended_s": 2.0}`, and `"again"`: whether the job is to be requeued. An
attempt without a record was ended by Slurm.
"""

import json
import math
import os
import pwd
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Dict, List, Mapping, Optional

from runspec_agent.base import (
    end_causes,
    image_entrypoint,
    limits,
    process,
    record_formats,
    retry_rules,
    task_identity,
)
from runspec_agent.base.job_env import LOST, STOPPED, USAGE, Failure, read
from runspec_agent.base.process import Child, Signals
from runspec_agent.base.task_identity import TaskIdentity, place
from runspec_agent.job import agent_fork, slurm_commands
from runspec_agent.preemption import release
from runspec_agent.preemption.limit_signal import REMIND
from runspec_agent.retry import exit_records, stop_request
from runspec_agent.retry.attempts import Lost, read_record
from runspec_agent.retry.exit_records import ExitRecords
from runspec_agent.retry.failure_count import AGAIN, Failures
from runspec_agent.retry.retry_rounds import TOO_LONG
from runspec_agent.store import base
from runspec_agent.store.base import Bucket
from runspec_agent.usage import oom_kills

CANCELLED = "cancelled"
AT = "runs/{}/"
MIB = 1 << 20
LOOK_S = 1.0  # between two looks for the exit records of nodes
FIRST_S = 10.0  # for the first node to end by itself after another one has failed
SIGNALLED = 128  # a shell's exit code is greater if a signal ended its command
NEAR_S = 150.0  # Slurm sends the signal up to 30 s before the time that `job.time_limit` asks for
# What srun says when a signal ended the agent of a node; a task is a rank: "srun: error: node2: task 1: Killed".
# https://github.com/SchedMD/slurm/blob/slurm-22-05-8-1/src/plugins/launch/slurm/launch_slurm.c
KILLED = re.compile(r"srun: error: \S+: tasks? (\d+)(?:-(\d+))?: (?:Killed|Out Of Memory)")
ENGINES = ("podman", "apptainer")
BY_PYXIS = "--container-image="  # an option of srun
OF_AGENT = (
    USAGE,
    69,
    LOST,
)  # exit codes of an agent that ended before its record: docs/exit-codes.md
NOT_STARTED = (
    "the container did not start: its image cannot be pulled, lacks python3, or is for another "
    "processor; the log has the engine's message"
)
UNPROVEN = "the agent recorded no end: the program may not have run"
LIMIT = "timeout: Slurm's time limit for the job is over: raise timeout, or use a partition that allows more time"
OVERDUE = "timeout: not done after {:g} s; Slurm ended it at its own limit, since the agent had not"
DEADLINE = "the deadline that sbatch was given is over"


def main(argv: List[str]) -> int:
    command = argv[1:] if argv[:1] == ["--"] else argv
    if not command:
        raise Failure("batch: no command")
    _name_owner()
    task_identity.restore_path(os.environ, keep=True)
    process.adopt_orphans()
    with Signals() as signals:
        return Batch(base.connect(), dict(os.environ)).run(command, signals)


class Batch:
    """One attempt of one task. *env* has the variables of the batch script and of Slurm."""

    def __init__(self, bucket: Bucket, env: Dict[str, str]) -> None:
        self.began = time.monotonic()
        self.bucket, self.env = bucket, env
        self.at = AT.format(env["RUNSPEC_RUN"])
        self.record = read_record(bucket, self.at)
        self.place: TaskIdentity = place(env, self.record)
        # The nodes of an elastic job keep it themselves: the first one whose time is over ends the job.
        limit = "inf" if self.record.get("elastic") else env.get("RUNSPEC_TIMEOUT_S") or "inf"
        self.timeout_s = float(limit)
        self.grace_s = read(env).grace_s
        self.ends = ExitRecords(bucket, self.at, self.place, "batch", exit_records.name(env))
        self.lost = Lost(bucket, self.at, self.record, self.place)
        self._next_look = self._failed_at = 0.0
        self.kills = oom_kills.watch(self.record)
        self.out_of_memory: List[int] = []  # ranks of which srun says so
        self._signal_s = math.inf  # when nodes are told to send the signal of the spec
        if self.record.get("signal"):
            self._signal_s = self.timeout_s - self.record["signal"]["before_s"]
        self.late = False  # whether a time limit has ended this attempt

    def run(self, argv: List[str], signals: Signals) -> int:
        """Return the exit code for the script; the exit record has the same code, and the reason."""
        claim = self.at + self.env.get("RUNSPEC_CLAIM", "claim")
        holder = record_formats.holder(self.bucket.claim(claim, self.place.job.encode()), claim)
        if holder == CANCELLED:
            _tell("cancelled, leaving")
            return STOPPED
        if holder != self.place.job:
            _tell("duplicate of {}, leaving".format(holder))
            return 0
        if stop_request.is_stopped(self.bucket, self.at, self.place.task):
            _tell("{}, leaving".format(stop_request.WHY))
            self._note(STOPPED, stop_request.WHY)
            return STOPPED
        if self._is_halted():
            _tell(stop_request.HALTED)
            self._note(STOPPED, stop_request.HALTED)
            return STOPPED
        if self._is_released():
            return self._give_back()
        if self._succeeded():
            _tell("an earlier attempt has succeeded: this task has nothing to do")
            self._note(0, None)
            return 0
        why: Optional[str] = self.lost.too_often()
        if why is not None:
            code = LOST
            _tell(why)
        else:
            try:
                code, why = self._attended(argv, signals), None
            except Failure as failure:
                code, why = failure.code, str(failure)
                _tell(why)
        return self._ended(code, why, signals)

    def _attended(self, argv: List[str], signals: Signals) -> int:
        """Run the program; with `max_failed`, end it once so many tasks have failed."""
        if self.record.get("max_failed") is None:
            return self._program(argv, signals)
        poller = stop_request.StopPoller(self._is_halted, stop_request.LOOK_S)
        poller.start()
        try:
            return self._program(argv, signals)
        finally:
            poller.finish()

    def _is_halted(self) -> bool:
        return stop_request.is_halted(self.bucket, self.at, self.place.task, self.record)

    def _count(self, code: int) -> None:
        """Count this task if it has failed, and cancel those that wait if it is one too many: see `max_failed`."""
        if code == 0:
            stop_request.unmark(self.bucket, self.at, self.place, self.record)
            return
        stop_request.mark_failed(self.bucket, self.at, self.place, self.record)
        array = self.env.get("SLURM_ARRAY_JOB_ID")
        if array and stop_request.is_halted(self.bucket, self.at, -1, self.record):
            said = slurm_commands.run(["scancel", "--state=PENDING", array], self.env)
            if said is not None:  # each leaves when it starts
                _tell("cannot cancel pending tasks of this job: {}".format(said))

    def _succeeded(self) -> bool:
        """Return whether an earlier attempt succeeded, for an array that was requeued because other tasks failed."""
        before = self.place._replace(attempt=self.place.attempt - 1)
        note = ExitRecords(self.bucket, self.at, before, "", "").read("batch")
        return note is not None and note["code"] == 0

    def _program(self, argv: List[str], signals: Signals) -> int:
        if self.env.get(image_entrypoint.VARIABLE):
            self._ask_engine(argv, signals)
        many = os.path.basename(argv[0]) == "srun"
        if many:
            child: Child = Step(argv, self.env, self.ends)
        elif agent_fork.is_ours(argv):
            child = agent_fork.start(signals)
        else:
            child = Child(argv, self.env)
        step = child if isinstance(child, Step) else None
        longest_s = self.grace_s + limits.SAVE_S
        try:
            code = process.run(child, signals, longest_s, lambda: self._wrong(step))
        except Failure as failure:
            raise self._judged(failure) from failure
        first = None if code == STOPPED and signals.stopping else self.ends.read("0")
        if first is None:
            if code == STOPPED:
                return code
            if SIGNALLED < code <= SIGNALLED + signal.SIGRTMAX:
                raise self._killed(0, code)
            if code in OF_AGENT or (code and not _contained(argv)):
                return code  # the agent has said why
            if retry_rules.find_action(self.record, code, retry_rules.IMAGE) == retry_rules.RETRY:
                failures = Failures(self.bucket, self.at, self.record)
                code = failures.judge(self.place, code, reason=retry_rules.IMAGE) if code else 1
            raise Failure(NOT_STARTED if code else UNPROVEN, code or 1)
        return int(first["code"]) if many else code

    def _ask_engine(self, argv: List[str], signals: Signals) -> None:
        """Put the ENTRYPOINT of an image in place of its name, for podman, which takes the variable from here."""
        image = self.env[image_entrypoint.VARIABLE]
        try:
            code = image_entrypoint.read("podman", image)
        except OSError:  # the node may not have the image yet
            logins = [word for word in argv if word.startswith("--authfile=")]
            pull = ["podman", "pull", "--quiet", *logins, image]
            failed = process.run(Child(pull, self.env, stdout=2), signals, self.grace_s)
            if failed:
                raise Failure("the image {} cannot be pulled".format(image), failed) from None
            try:
                code = image_entrypoint.read("podman", image)
            except OSError as error:
                raise Failure(str(error), USAGE) from error
        self.env[image_entrypoint.VARIABLE] = code

    def _judged(self, failure: Failure) -> Failure:
        """Return *failure*; a timeout is a failure of the job, which may have another attempt."""
        return Failure(str(failure), self._too_long()) if self.late else failure

    def _too_long(self) -> int:
        """Record that a time limit has ended this attempt, and return its exit code."""
        self.late = True
        if self.record.get("elastic"):
            return TOO_LONG
        failures = Failures(self.bucket, self.at, self.record)
        return failures.judge(self.place, TOO_LONG, reason=retry_rules.TIMEOUT)

    def _limit(self) -> Optional[str]:
        """Return which limit of Slurm is near, after a signal to end that did not come from runspec; else None."""
        claim = self.bucket.get(self.at + self.env.get("RUNSPEC_CLAIM", "claim"))
        if claim == CANCELLED.encode() or stop_request.is_stopped(
            self.bucket, self.at, self.place.task
        ):
            return None
        if self._is_halted():
            return None
        shown = slurm_commands.shown(_name(self.env), self.env)
        # This process may have been stopped, and so has not kept the timeout.
        overdue = time.monotonic() - self.began > self.timeout_s
        limit = OVERDUE.format(self.timeout_s) if overdue else LIMIT
        ends = [(shown.get("EndTime", ""), limit), (shown.get("Deadline", ""), DEADLINE)]
        near = time.time() + self.grace_s + NEAR_S
        known = [(slurm_commands.seconds(text), why) for text, why in ends]
        return next((why for end_s, why in sorted(known) if end_s < near), None)

    def _killed(self, rank: int, code: int) -> Failure:
        """Return the Failure for a node whose agent was killed, and so recorded nothing: as a failure of its program.

        In an elastic job, it is a lost node, which comes back.
        """
        why = "the agent of node {} was killed by signal {}".format(rank, code - SIGNALLED)
        if not self.record.get("elastic"):
            identity = self.place._replace(rank=rank)
            failures = Failures(self.bucket, self.at, self.record)
            if self._ran_out(rank, code):
                failures.note_oom(identity)
            return Failure(why, failures.judge(identity, code))
        return Failure(why, AGAIN)

    def _ran_out(self, rank: int, code: int) -> bool:
        """Return whether the agent of a node was killed for its memory, as srun says of another node."""
        mine = rank == 0 and oom_kills.explain(self.kills, code)
        return mine or rank in self.out_of_memory

    def _wrong(self, step: "Optional[Step]") -> Optional[Failure]:
        """Return why the job has to end now: it timed out, or a node whose exit decides has ended."""
        now = time.monotonic()
        if now - self.began > self._signal_s:
            self._signal_s = math.inf
            self._remind()
        if now - self.began > self.timeout_s:
            self.late = True
            hint = end_causes.MPI_HINT if self.record["launch"] == "mpi" else ""
            said = "timeout: not done after {:g} s{}".format(self.timeout_s, hint)
            return Failure(said, TOO_LONG)
        if step is not None and step.code is None and now >= self._next_look:
            self._next_look = now + LOOK_S
            self.out_of_memory = step.out_of_memory
            for rank in step.killed:
                if self.ends.read(str(rank)) is None:
                    return self._killed(rank, SIGNALLED + signal.SIGKILL)
            return self._failed_node(now)
        return None

    def _remind(self) -> None:
        try:
            self.ends.tell(REMIND)
        except Failure as failure:
            _tell("the nodes cannot be told of the time limit: {}".format(failure))

    def _failed_node(self, now: float) -> Optional[Failure]:
        """Return the failure of a node: of the first, or of another one if the first does not end soon after."""
        failed = []
        for entry in self.bucket.listing(self.ends.folder):
            who = entry.key[len(self.ends.folder) :].partition(".")[0]
            note = self.ends.read(who) if who.isdigit() else None
            if note is not None and note["code"]:
                failed.append((int(who), int(note["code"])))
        if not failed or self.record["nodes"] == 1:
            return None
        self._failed_at = self._failed_at or now
        rank, code = min(failed)
        if rank > 0 and now - self._failed_at < FIRST_S:
            return None
        return Failure(
            "node {} has exited with {}: the other nodes are told to end".format(rank, code), code
        )

    def _ended(self, code: int, why: Optional[str], signals: Signals) -> int:
        """Record the end of this attempt, and requeue the job if another attempt follows.

        If a node was told to end and the job was not, the node is about to be preempted.
        """
        limit = self._limit() if code == STOPPED and signals.stopping else None
        if limit is not None:
            code, why = self._too_long(), limit
            _tell(limit)
        if code in (AGAIN, STOPPED) and not signals.stopping and self._is_released():
            return self._give_back()
        if code == STOPPED and signals.stopping:
            why = why or (stop_request.HALTED if self._is_halted() else "told to end")
        elif (code == STOPPED and self.lost.has_failed()) or code not in (AGAIN, STOPPED):
            if self.record.get("elastic"):
                self._call_off()
            self._count(code)
        elif self.lost.again():
            why = self._requeued(why)
            if why is None:
                return AGAIN
        else:
            why = why or "its nodes were lost, and no attempts are left"
        self._note(code, why)
        return code

    def _is_released(self) -> bool:
        """Return whether this task is a node of an elastic job that was released."""
        is_elastic = bool(self.record.get("elastic"))
        return is_elastic and release.is_released(self.bucket, self.at, self.place.task)

    def _give_back(self) -> int:
        """Hold this task in the queue, where it takes no node, until it is asked for; return its exit code."""
        _tell("this node was released")
        self.lost.leave_out()
        self._note(STOPPED, end_causes.AWAY, cause=end_causes.RELEASED)
        said = slurm_commands.run(["scontrol", "requeuehold", _name(self.env)], self.env)
        if said is not None:
            _tell("the job cannot be held, and cannot come back: {}".format(said))
        return STOPPED

    def _call_off(self) -> None:
        """Cancel pending jobs of nodes that would join a job that is over."""
        most = self.record["elastic"]["max"]
        task = self.place.task // most
        content = self.bucket.get("{}elastic/{}/state".format(self.at, task))
        if content is None or json.loads(content.decode("ascii")).get("phase") != "done":
            return
        names = "{}_[{}-{}]".format(
            self.env["SLURM_ARRAY_JOB_ID"], task * most, task * most + most - 1
        )
        said = slurm_commands.run(["scancel", "--state=PENDING", names], self.env)
        if said is not None:
            _tell("cannot cancel pending nodes of this job: {}".format(said))

    def _requeued(self, why: Optional[str]) -> Optional[str]:
        """Requeue the job and return None, or return why that failed."""
        self._note(AGAIN, why, again=True)
        rule = {} if self.late else Failures(self.bucket, self.at, self.record).rule_of(self.place)
        said = slurm_commands.run(["scontrol", "requeue", _name(self.env)], self.env)
        if said is None:
            self._grow(rule)
            return None
        _tell("the job cannot be requeued: {}".format(said))
        return "another attempt was due, but the job cannot be requeued: {}".format(said)

    def _grow(self, rule: Mapping[str, Any]) -> None:
        """Ask for more memory for the next attempt, which does not begin before this process has ended.

        Slurm sets SLURM_MEM_PER_NODE in MiB, and changes the request of a job that is queued again.
        """
        memory = self.env.get("SLURM_MEM_PER_NODE", "")
        more = retry_rules.grow(rule, int(memory) * MIB) if memory.isdigit() else None
        if more is None:
            return
        mib = -(-more // MIB)
        job, memory = "JobId={}".format(_name(self.env)), "MinMemoryNode={}".format(mib)
        said = slurm_commands.run(["scontrol", "update", job, memory], self.env)
        if said is None:
            _tell("the next attempt has {} MiB of memory".format(mib))
        else:
            _tell("the next attempt has as much memory as this one: {}".format(said))

    def _note(self, code: int, why: Optional[str], again: bool = False, **more: str) -> None:
        try:
            late = {"own": TOO_LONG, "cause": end_causes.TIMEOUT} if self.late else {}
            self.ends.note(code, why, again=again, **late, **more)
        except Failure as failure:
            _tell("the exit code cannot be recorded: {}".format(failure))


class Step(Child):
    """An srun process, which is never sent a signal: signals for its tasks are records in the store."""

    def __init__(self, argv: List[str], env: Mapping[str, str], ends: ExitRecords) -> None:
        # Or the step takes all memory of the nodes, and an srun of the program waits for it until the timeout.
        super().__init__(argv, dict(env, SLURM_OVERLAP="1"), stderr=subprocess.PIPE)
        self._ends = ends
        self._stopped = False
        self.out_of_memory: List[int] = []  # those of *killed* that used too much memory
        self.killed: List[int] = []  # ranks of which srun says that a signal ended their agents
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Print what srun says; the outputs of its tasks are in files."""
        assert self._popen.stderr is not None, "BUG: it is a pipe"
        for line in self._popen.stderr:
            text = line.decode("utf-8", "replace")
            match = KILLED.match(text)
            if match is not None:
                first, last = match.group(1), match.group(2) or match.group(1)
                ranks = range(int(first), int(last) + 1)
                self.out_of_memory.extend(ranks if "Out Of Memory" in text else ())
                self.killed.extend(ranks)
            sys.stderr.write(text)
            sys.stderr.flush()

    def send(self, number: int) -> None:
        """Write the signal to the store; ignore errors, since nodes that do not see it are killed in the end."""
        again = number in process.STOPS and self._stopped  # Slurm may send it twice
        self._stopped = self._stopped or number in process.STOPS
        if self.code is None and not again:
            try:
                self._ends.tell(number)
            except Failure as failure:
                _tell("the nodes cannot be told to end: {}".format(failure))


def _contained(argv: List[str]) -> bool:
    """Return whether *argv* start the agent in a container."""
    return any(os.path.basename(word) in ENGINES or word.startswith(BY_PYXIS) for word in argv)


def _name_owner() -> None:
    """Set USER and LOGNAME if they are missing: a login shell would start five programs in each task to find them."""
    try:
        owner = pwd.getpwuid(os.getuid())
    except KeyError:  # the node does not know the user of the job
        return
    for name, value in (
        ("HOME", owner.pw_dir),
        ("USER", owner.pw_name),
        ("LOGNAME", owner.pw_name),
    ):
        if not os.environ.get(name):
            os.environ[name] = value


def _name(env: Mapping[str, str]) -> str:
    """Return the job id of this task for scontrol: in an array, SLURM_JOB_ID may be that of the whole array.

    >>> _name({"SLURM_JOB_ID": "47", "SLURM_ARRAY_JOB_ID": "47", "SLURM_ARRAY_TASK_ID": "1"})
    '47_1'
    """
    if env.get("SLURM_ARRAY_JOB_ID"):
        return "{}_{}".format(env["SLURM_ARRAY_JOB_ID"], env["SLURM_ARRAY_TASK_ID"])
    return env["SLURM_JOB_ID"]


def _tell(text: str) -> None:
    print("runspec: {}".format(text.replace("\n", "\\n")), file=sys.stderr)
    sys.stderr.flush()
