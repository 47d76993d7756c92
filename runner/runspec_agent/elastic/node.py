"""One node of an elastic job, from its first read of the state to its last; a member runs the program.

`docs/inside.md` describes what a program sees of this.
"""

import json
import os
import shlex
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from runspec_agent.base import files, limits, process, program_hooks
from runspec_agent.base.job_env import LOST, STOPPED, Failure, read
from runspec_agent.base.process import STOPS, Child, Pace, Signals
from runspec_agent.base.task_identity import seat, variable
from runspec_agent.elastic.change_cost import Account
from runspec_agent.elastic.checkpoint import CheckpointManifest, FencedSaver
from runspec_agent.elastic.frameworks import import_before_joining, learn
from runspec_agent.elastic.member import Member, timing
from runspec_agent.elastic.peers import Peers
from runspec_agent.elastic.policy import DONE, TOO_LONG, Bounds, Node, State, is_timeout
from runspec_agent.elastic.progress import ProgressGuard
from runspec_agent.elastic.protocol import STATE, View
from runspec_agent.elastic.runtime import Program, Torchrun, Turn, torchrun_words
from runspec_agent.elastic.warm import Warm, is_python
from runspec_agent.env import address, program_env
from runspec_agent.transfer import inputs, workdir
from runspec_agent.transfer.output_saver import Saver
from runspec_agent.transfer.store_mirror import Mirror

if TYPE_CHECKING:
    from typing import Protocol  # novm - 3.8 or newer, for type checkers only

    from runspec_agent.base.task_identity import TaskIdentity
    from runspec_agent.store.base import Bucket

    class Host(Protocol):
        """What an elastic node needs of the agent; the agent imports this module, so this module cannot import it."""

        bucket: Bucket
        env: Dict[str, str]
        record: Dict[str, Any]
        at: str
        place: TaskIdentity
        folder: str
        workdir: workdir.Workdir

        def tell(self, text: str) -> None: ...
        def notice(self) -> Optional[str]: ...
        def is_released(self) -> bool: ...
        def late(self) -> Optional[str]: ...


LOOK_S = 0.05  # between two reads of the view
QUICK_S = 2.0  # for the store to accept the record of a membership change
STARTS = "starts/{}"


class Elastic:
    """Run a record with `elastic` for *agent*; *words* are the command, unless the record has one."""

    def __init__(self, agent: "Host", words: List[str], signals: Signals) -> None:
        self.agent, self.words, self.signals = agent, words, signals
        self.bucket, self.env, self.record = agent.bucket, agent.env, agent.record
        self.prefix = "{}elastic/{}/".format(agent.at, agent.place.task)
        self.bounds = self.record["elastic"]
        self.folder = os.path.join(agent.folder, "elastic")
        self.kept = CheckpointManifest(self.bucket, self.prefix, agent.at, agent.place.task)
        self.own = Saver(self.bucket)
        quick = (
            self.bucket.apart()
        )  # waiting for the store would delay signals and stopping the program
        quick.hasten(QUICK_S)
        self.account = Account(quick, self.prefix, self.folder)
        self.headway = ProgressGuard(self.account.path)
        self.turn: Optional[Turn] = None  # the generation whose program runs here
        self.saver: Optional[FencedSaver] = None
        self.mirror: Optional[Mirror] = None
        self.told = False  # whether the program was sent SIGTERM
        self.leaving = self.timed_out = False
        self._overdue = False  # whether this node has reported that it is
        self._began = self._said = 0
        self._further = False  # whether the generation that ran here last made progress
        self._shown: Optional[View] = None

    def run(self) -> int:
        """Return the exit code of this node: that of the job if it is over, STOPPED if the node has to leave."""
        over = self._over()
        if over is not None:
            return over
        self._prepare()
        words = self.words or [files.local(word) for word in self.record.get("argv") or ()]
        start = ["/bin/sh", self.agent.workdir.unpack_script(words)]
        setup, argv = program_hooks.split(words)
        code = self._set_up([*start, *setup]) if setup else 0
        if code:
            return code
        self.engine = self._engine(start, argv)
        self.member = self._member()
        self.own.start()
        try:
            env = self._localized()
            import_before_joining(self.engine, self.bucket, self.prefix, env, self._leaves)
            self.member.start()
            self.engine.prepare(env)
            code = self.stay()
        finally:
            self.engine.kill()
            self.member.close()
            lost = self._lost_own(self.own.finish())
        if code == 0 and not lost:
            self._publish(self.own)
        return 1 if lost and code == 0 else code

    def _publish(self, saver: Saver) -> None:
        for line in saver.publish():
            self.agent.tell("not published yet: {}".format(line))

    def _over(self) -> Optional[int]:
        """Return the exit code of a job that is already over, so that a node that starts late has nothing to do."""
        found = self.bucket.get(self.prefix + STATE)
        state = None if found is None else State.of(found)
        if state is None or state.phase != DONE:
            return None
        self.agent.tell("the job is over: this node has nothing to do")
        self.timed_out = is_timeout(state.code, state.why)
        return state.code

    def _prepare(self) -> None:
        """Prepare everything that the program needs, so that other nodes need not wait after this node has joined."""
        self.agent.workdir.mounted(seat(self.agent.place, self.record).task)
        self.kept.resume = self.agent.workdir.resume
        os.mkdir(self.folder, 0o755)
        for output in self.record["outputs"]:
            path = inputs.roomy(self.agent.workdir.below(output["path"]), self.env)
            os.makedirs(path, exist_ok=True)
            keep = output.get("keep", 1)
            if output.get("from") == "all":
                below = workdir.own(self.agent.at + "outputs/", output["name"], self.agent.place)
                self.own.add(
                    output["name"], path, below, output["sync_s"], keep, names=[output["path"]]
                )
                self.agent.workdir.begin(self.own, output["name"], path, self.agent.place)
            else:
                self.kept.add(output["name"], path, output["sync_s"], keep, output["path"])
            self.env[variable("OUTPUT", output["name"])] = path
        program_env.fill(self.env, self.record, self.agent.place, self.folder)
        hosts = os.path.join(self.folder, "hosts")
        script = os.path.join(self.folder, "discovery.sh")
        files.write(script, discovery(hosts), 0o755)
        self.env.update(
            RUNSPEC_MEMBERS=os.path.join(self.folder, "members.json"),
            RUNSPEC_NOTICE=os.path.join(self.folder, "notice"),
            RUNSPEC_PROGRESS=self.account.path,
            RUNSPEC_DISCOVERY=script,
        )

    def _set_up(self, argv: List[str]) -> int:
        """Run the setup before this node joins; return its exit code, or STOPPED if the node has to leave meanwhile."""
        child = Child(argv, dict(self._localized(), RUNSPEC_LAUNCH="none"), self.agent.workdir.cwd)
        try:
            code = process.run(child, self.signals, self._grace_s(), self._departs, keep_rest=True)
        except Failure as failure:
            self.agent.tell(str(failure))
            code = failure.code
        if code == 0:
            self.env.pop(program_hooks.ENDED, None)
        self.timed_out = self.agent.late() is not None and code == TOO_LONG
        self.leaving = code == STOPPED and (self.signals.stopping or bool(self.agent.notice()))
        return code

    def _departs(self) -> Optional[Failure]:
        """Return why this node has to end, although it has not joined."""
        notice, late = self.agent.notice(), self.agent.late()
        if notice is not None:
            return Failure("this node leaves: {}".format(notice), STOPPED)
        return None if late is None else Failure(late, TOO_LONG)

    def _engine(self, start: List[str], argv: List[str]) -> Program:
        grace_s, slots, cwd = self._grace_s(), self.record["slots"], self.agent.workdir.cwd
        warm = None
        if self.record["launch"] != "mpi" and is_python(argv, self.env.get("PATH")):
            warm = Warm(os.path.join(self.folder, "warm"), start, argv, cwd)
            argv = warm.words()
        if self.record["launch"] != "torchrun":
            return Program([*start, *argv], cwd, grace_s, warm)
        own = torchrun_words(self.env["RUNSPEC_RUN"], self.bounds, slots, self.env["RUNSPEC_HOST"])
        folder = os.path.join(self.folder, "torchrun")
        os.mkdir(folder)
        return Torchrun([*start, *own, *argv], cwd, grace_s, folder, slots, warm)

    def _grace_s(self) -> float:
        return read(
            dict(self.env, RUNSPEC_LAUNCH="none")
        ).grace_s  # the rendezvous is not known yet

    def _member(self) -> Member:
        place = self.agent.place
        own = "{:05}-{}".format(
            place.rank, os.urandom(4).hex()
        )  # new members are ordered by this id
        me = Node(own, self.record["slots"], self.env["RUNSPEC_HOST"])
        least, most = self.bounds["min"], self.bounds["max"]
        limit_s = self.record.get("timeout_s") or 0.0
        bounds = Bounds(least, most, self.record["attempts"], limit_s, self.record)
        times = timing(os.environ, self._grace_s() + limits.SAVE_S)
        return Member(self.bucket.apart(), self.prefix, me, bounds, times, Peers(me.host))

    def _leaves(self, seconds: float) -> bool:
        self.signals.wait(seconds)
        return self.signals.stopping or self.agent.notice() is not None

    def stay(self) -> int:
        code: Optional[int] = None
        while True:
            if not self.member.is_alive():  # because of a bug, which the thread has printed
                raise Failure("the membership of this node has ended", LOST)
            for number in self.signals.wait(LOOK_S if code is None else 0.0):
                if number not in STOPS:  # a stop signal is handled once, by `_hear`
                    self.engine.send(number)
            self._hear()
            view = self.member.view()
            self._show(view)
            code = self.engine.look()
            if code is not None:
                self._ended(code)
            self.account.look()
            learn(self.engine, self.bucket, self.prefix, self._localized)
            if self.turn is not None:
                if self.leaving or view.rank is None or view.generation != self.turn.generation:
                    self._stop()
            elif view.phase == DONE:
                self.agent.tell("the job is over: {}".format(view.why))
                self.timed_out = is_timeout(view.code, view.why)
                return view.code
            elif self.leaving:
                return STOPPED
            else:
                self._wait(view)

    def _hear(self) -> None:
        """Report once that this node will leave, after a notice or a signal, or that the time of the job is over."""
        why, late = self.agent.notice(), self.agent.late()
        if late is not None and not self._overdue:
            self._overdue = True
            self.member.overdue()
            self.agent.tell(late)
        if self.leaving or not (self.signals.stopping or why):
            return
        self.leaving = True
        text = why or "told to end"
        files.write(self.env["RUNSPEC_NOTICE"], (text + "\n").encode(), 0o644)
        self.member.leave(text)
        self.agent.tell("this node leaves: {}".format(text))

    def _stop(self) -> None:
        """Ask the program to save and end, once; it is killed when its grace period is over."""
        if not self.told:
            self.told = True
            self.engine.stop()

    def _ended(self, code: int) -> None:
        """Save the program's files; report its exit code if the agent had not asked it to end."""
        turn = self.turn
        assert turn is not None, "BUG: no program ran"
        self.account.end()
        if self.mirror is not None:
            self.mirror.finish()
        lines = self.saver.finish() if self.saver is not None else []
        for line in lines:
            self.agent.tell("not saved: {}".format(line))
        lost = bool(lines) | self._lost_own(self.own.whole())
        saver = self.saver
        self._further = saver is not None and self.headway.made(saver.has_new())
        self.turn = self.saver = self.mirror = None
        if not self.told:
            self.agent.tell(
                "the program of generation {} ended with exit code {}".format(turn.generation, code)
            )
            code = 1 if lost and code == 0 else code
            if code == 0 and saver is not None:
                self._publish(saver)
            self.member.finish(turn.generation, code, self._further)

    def _lost_own(self, lines: List[str]) -> bool:
        """Print what could not be saved, and return whether that is a failure: not if this node was replaced."""
        for line in lines:
            self.agent.tell("not saved: {}".format(line))
        return bool(lines) and not self.own.replaced

    def _wait(self, view: View) -> None:
        """Take part in a generation that includes this node; otherwise report that this node is ready."""
        if view.rank is not None and view.generation > self._began:
            self.begin(view)
        elif view.rank is None and view.generation > self._said:
            if self.agent.is_released():
                return  # several nodes that are released at once leave in one change
            self._said = view.generation
            self.member.ready(view.generation, self._further)

    def begin(self, view: View) -> None:
        """Start the program of a generation once all nodes have restored the last save."""
        self._began, self.told = view.generation, False
        hosts = [node.host for node in view.members]
        text = "generation {}: node {} of {}: {}"
        rank = view.rank or 0
        self.agent.tell(text.format(view.generation, rank, len(hosts), " ".join(hosts)))
        start = self._start(view.generation, rank)
        if start is None:
            return
        port, note = start
        if not self._restored(view.generation, rank, note):
            return
        now = self.member.view()
        if (
            now.rank is None or now.generation != view.generation
        ):  # the other nodes have started a later generation
            return
        turn = Turn(view.generation, rank, hosts, port)
        env = self._environment(turn, view)
        if rank == 0:
            self.saver = self.kept.saver(self.member, turn.generation, note, len(hosts))
        self.account.begin(turn, view)
        self.headway.begin()
        self.turn = turn
        try:
            self.engine.start(turn, env)
        except Failure as failure:
            self.agent.tell(str(failure))
            self._ended(failure.code)
            return
        if self.saver is not None:
            self.saver.start()
        if self.mirror is not None:
            self.mirror.start()

    def _restored(self, generation: int, rank: int, note: str) -> bool:
        """Restore the files that the generation starts from; return False if a later generation has deleted them."""
        try:
            self.kept.restore(note)
            self.kept.has_restored(generation, rank, note)
        except Failure:
            now = self.member.view()
            if now.rank is not None and now.generation == generation:
                raise
            return False
        return True

    def _start(self, generation: int, rank: int) -> Optional[Tuple[int, str]]:
        """Return the port and the save to start from, which the first node writes; None if the generation is over."""
        key = self.prefix + STARTS.format(generation)
        if rank == 0:
            start = address.free_port(), self._committed()
            self.bucket.put(key, json.dumps(start).encode("ascii"))
            return start
        until, pace = time.monotonic() + limits.ELASTIC_START_S, Pace(0.05, 1.0)
        while time.monotonic() < until:
            found = self.bucket.get(key)
            if found is not None:
                port, note = json.loads(found.decode("ascii"))
                return int(port), str(note)
            self.signals.wait(pace.pause_s())
            view = self.member.view()
            if self.signals.stopping or view.rank is None or view.generation != generation:
                return None
        text = "the first node has not written at which port the nodes of generation {} meet"
        self.agent.tell(text.format(generation))
        self.member.finish(generation, LOST)
        return None

    def _committed(self) -> str:
        """Return the name of the last valid save; the store may be silent only for as long as other nodes wait."""
        until = time.monotonic() + self.member.timing.lease_s
        while True:
            try:
                return self.member.committed()
            except Failure:
                if time.monotonic() > until:
                    raise
            self.signals.wait(LOOK_S)

    def _environment(self, turn: Turn, view: View) -> Dict[str, str]:
        slots = self.record["slots"]
        lines = ["{} slots={}\n".format(node.host, node.slots) for node in view.members]
        files.write(self.env["RUNSPEC_HOSTFILE"], "".join(lines).encode(), 0o644)
        self.env.update(
            RUNSPEC_GENERATION=str(turn.generation),
            RUNSPEC_ATTEMPT=str(turn.generation),
            RUNSPEC_RANK=str(turn.rank),
            RUNSPEC_NODES=str(len(turn.hosts)),
            RUNSPEC_WORLD_SIZE=str(len(turn.hosts) * slots),
            RUNSPEC_LEADER=turn.hosts[0],
            RUNSPEC_PORT=str(turn.port),
        )
        if self.record["launch"] == "mpi" and len(turn.hosts) > 1:
            meet = os.path.join(self.folder, "meet-{}".format(turn.generation))
            os.mkdir(meet, 0o700)
            self.env["RUNSPEC_MEET"] = meet
            prefix = "{}meet/{}/".format(self.prefix, turn.generation)
            self.mirror = Mirror(self.bucket, meet, prefix)
        return self._localized()

    def _localized(self) -> Dict[str, str]:
        return {name: files.local(value) for name, value in self.env.items()}

    def _show(self, view: View) -> None:
        """Update the files that list the members."""
        if self._shown is not None and view[:4] == self._shown[:4]:
            return
        self._shown = view
        lines = ["{}:{}\n".format(node.host, node.slots) for node in view.members]
        files.write(os.path.join(self.folder, "hosts"), "".join(lines).encode(), 0o644)
        record = {
            "generation": view.generation,
            "phase": view.phase,
            "rank": view.rank,
            "members": [{"host": node.host, "slots": node.slots} for node in view.members],
        }
        files.write(self.env["RUNSPEC_MEMBERS"], json.dumps(record).encode("ascii"), 0o644)


def discovery(hosts: str) -> bytes:
    """Return a script that prints the file *hosts*."""
    return b"#!/bin/sh\nexec cat " + os.fsencode(shlex.quote(hosts)) + b"\n"
