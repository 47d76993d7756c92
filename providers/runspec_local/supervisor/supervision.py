"""The process that stays with a run after `apply` has ended: it starts nodes and records how they end.

Standard library only, and one thread: it sleeps until a process ends or a time has come.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from runspec_agent.base import program_hooks
from runspec_agent.base.end_causes import AWAY, MPI_HINT, exited
from runspec_agent.base.failure import STOPPED, UNSAVED_CODE
from runspec_agent.base.light_typing import Any
from runspec_agent.base.retry_rules import SETUP, TIMEOUT, is_final
from runspec_local.errors import full_disk, not_started
from runspec_local.session.container_engine import await_container, engine, remove_container
from runspec_local.supervisor import durable, elastic, ending
from runspec_local.supervisor.child import Child, end_sampler, start_child, start_sampler
from runspec_local.supervisor.device_leases import LOOK_S, DeviceLeases, Devices
from runspec_local.supervisor.ending import Attempt
from runspec_local.supervisor.events import Events, LogTimes
from runspec_local.supervisor.node import Node
from runspec_local.supervisor.process import FORMAT, identity, locked
from runspec_local.supervisor.saver import Saver
from runspec_namespaces import mount_namespace

TOO_LONG = 124  # exit code of an attempt that has reached its timeout, as of timeout(1)
STOP = "stopped"  # why a task ends that was stopped
CANCELLED = "cancelled"  # why all tasks end
CLAIM_PAUSE_S = 0.02
STARTING_S = 0.2  # between two looks at the nodes of a task that are being started
KILL_S = 5.0  # from SIGKILL to giving up on a process
READY = b"ready\n"


class Supervisor:
    """Runs the tasks of one job until all have ended."""

    def __init__(
        self,
        job: Mapping[str, Any],
        secrets: Mapping[str, str],
        events: Events,
        leases: DeviceLeases,
    ) -> None:
        self.job, self.secrets, self.events, self.leases = job, secrets, events, leases
        self.delayed: dict[int, str] = {}  # tasks that wait for GPUs, and why
        self.waiting = list(range(len(job["tasks"])))
        self.tried: dict[int, int] = {}
        self.running: dict[int, Attempt] = {}
        self.codes: dict[int, int] = {}
        self.reasons: dict[int, str] = {}
        self.unsaved: list[str] = []  # messages about outputs that could not be saved
        self.asked = False  # whether the run was asked to end early
        self.unwanted: set[int] = set()  # tasks that are to end early, or not to start
        self.stopped: set[int] = set()  # the stopped tasks that ended early
        self.cancelled = False  # whether anything ended early
        self.needs = list(job.get("needs", ()))  # runs that must have ended before the tasks begin
        self.never = ""  # why the tasks cannot begin, if a run has not ended as they need
        self.times = LogTimes()
        self.poll = select.poll()
        self.wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken)
        self.poll.register(self.wake, select.POLLIN)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        # SIGHUP only wakes the loop: the terminal has closed, a task is to stop, or a node is asked for.
        if number != signal.SIGHUP:
            self.asked = True

    def run(self) -> int:
        """Run all tasks; return the exit code of the job, that of the first failed task."""
        while self.waiting or self.running:
            self.asked = self.asked or self._cancel_file()
            if self.asked:
                self._cancel()
            self._stop(self._stop_files() - self.unwanted)
            self._bring_back()
            self._begin_waiting()
            if self.running or self.waiting:
                self._sleep()
                self.times.note()
                self._look()
        failed = [code for code in (self.wanted[task] for task in sorted(self.wanted)) if code]
        return failed[0] if failed else 0

    @property
    def wanted(self) -> dict[int, int]:
        """Return the exit codes of all tasks but the stopped ones."""
        return {task: code for task, code in self.codes.items() if task not in self.stopped}

    def _cancel_file(self) -> bool:
        return Path(self.job["folder"], "cancel").exists()

    def _cancel(self) -> None:
        """End everything that can end early; outputs of ended tasks are still saved."""
        early = [attempt for attempt in self.running.values() if not attempt.saving]
        self.cancelled = self.cancelled or bool(self.waiting or early)
        for task in self.waiting:
            self.codes[task] = STOPPED
            if task in self.delayed:
                self._tell_all(task, "cancelled")
        self.waiting = []
        self.leases.wait_no_more()
        for attempt in early:
            self._end(attempt, CANCELLED)

    def _stop_files(self) -> set[int]:
        try:
            names = os.listdir(Path(self.job["folder"], "stop"))
        except FileNotFoundError:
            return set()
        return {int(name) for name in names if name.isdecimal()}

    def _stop(self, tasks: set[int]) -> None:
        """Stop *tasks* only; nodes that have ended by themselves keep their result."""
        self.unwanted |= tasks
        for task in sorted(tasks):
            if task in self.waiting:
                self.waiting.remove(task)
                self.codes[task] = STOPPED
                self.stopped.add(task)
                self.leases.wait_no_more()
                self._tell_all(task, "cancelled")
            elif task in self.running and self.running[task].can_be_stopped:
                self._end(self.running[task], STOP)

    def _begin_waiting(self) -> None:
        """Begin as many tasks as may run at the same time, and as there are GPUs for."""
        if self.needs and not self._parents_have_ended():
            return
        while self.waiting and len(self.running) < self.job["max_parallel"]:
            task = self.waiting[0]
            devices = self.leases.take(task)
            if isinstance(devices, str):
                if self.delayed.get(task) != devices:
                    self.delayed[task] = devices
                    self._tell_all(task, "waiting", reason=devices)
                return
            self.delayed.pop(task, None)
            self._begin(self.waiting.pop(0), devices)

    def _parents_have_ended(self) -> bool:
        """Return whether all runs that this one needs have ended as it needs; if one has not, this run is to end."""
        for need in list(self.needs):
            state = ending.of_run(Path(need["folder"]))
            if state is None:
                why = f"waits for {need['run']}"
                for task in self.waiting if self.delayed.get(-1) != why else ():
                    self._tell_all(task, "waiting", reason=why)
                self.delayed[-1] = why
                return False
            if need["condition"] not in ("ended", state):
                self.never = f"{need['run']} has {state}"
                self._cancel()
                return False
            self.needs.remove(need)
        return True

    def _begin(self, task: int, devices: Devices) -> None:
        number = self.tried[task] = self.tried.get(task, 0) + 1
        nodes = [Node(self.job, task, rank, number, own) for rank, own in enumerate(devices)]
        limit_s = self.job["timeout_s"]
        attempt = Attempt({}, [], time.monotonic() + limit_s if limit_s else None, devices)
        if attempt.deadline and "signal" in self.job:
            attempt.signal_at = attempt.deadline - self.job["signal"]["before_s"]
        self.running[task] = attempt
        due = time.monotonic() + STARTING_S
        for node in nodes:
            if time.monotonic() > due:
                if self._is_over(task, attempt):
                    return
                due = time.monotonic() + STARTING_S
            if "elastic" in self.job and elastic.released(self.job, task, node.rank):
                self._keep_away(task, node.rank)
                continue
            self._tell(task, node.rank, "running")
            try:
                self._start(node, attempt)
            except OSError as exc:
                attempt.codes[node.rank] = 127 if isinstance(exc, FileNotFoundError) else 126
                self._end(attempt, not_started(exc, node.folder))
                self._ended(task, node.rank)
                return

    def _is_over(self, task: int, attempt: Attempt) -> bool:
        """Reap the nodes that have ended; return whether the rest of *attempt* need not be started any more."""
        self.asked = self.asked or self._cancel_file()
        if (
            "elastic" not in self.job
        ):  # of such a job, too few nodes may be left before all are started
            self._look_at_nodes(task, attempt)
        return self.asked or attempt.ending is not None

    def _start(self, node: Node, attempt: Attempt) -> None:
        node.prepare(self.secrets)
        environment = node.environment(os.environ, self.secrets)
        self.times.watch(node.log)
        with durable.private_log(node.log) as log:
            attempt.log_sizes[node.rank] = os.fstat(log.fileno()).st_size
            if node.contained and node.rank == 0 and self.job["nodes"] > 1:
                line = node.network_argv()
                network = start_child(line, os.environ, node.folder, log, subprocess.PIPE)
                attempt.network = network
                await_container(self.job["engine"], node.network, lambda: network.ended)
            namespace = self.job.get("namespace", ())
            child = start_child(node.argv(), environment, node.folder, log, namespace=namespace)
        attempt.nodes[node.rank] = child
        self._watch(child)
        attempt.savers += [
            Saver(node, o, self._watch, self._forget, self.secrets) for o in node.kept
        ]

    def _watch(self, child: Child) -> None:
        self.poll.register(child.pidfd, select.POLLIN)
        child.watched = True

    def _forget(self, child: Child) -> None:
        if child.watched:
            self.poll.unregister(child.pidfd)
            child.watched = False

    def _sleep(self) -> None:
        """Sleep until a process ends, a signal arrives, or the next time has come."""
        if any(not attempt.left and not attempt.saving for attempt in self.running.values()):
            return
        times = [at for attempt in self.running.values() for at in attempt.next_s]
        times += self.times.next_s
        times += [time.monotonic() + LOOK_S] if self.leases.waits or self.needs else []
        pause = None if not times else max(0, min(times) - time.monotonic()) * 1000 + 1
        self.poll.poll(pause)
        try:
            os.read(self.wake, 512)
        except BlockingIOError:  # the pipe is empty: a process ended, or the time has come
            pass

    def _look(self) -> None:
        for task, attempt in list(self.running.items()):
            if not attempt.saving:
                for saver in attempt.savers:
                    saver.mind()
                self._look_at_nodes(task, attempt)
                if not attempt.left:
                    self._save(task, attempt)
            if attempt.saving:
                over = [saver.look() for saver in attempt.savers]  # every saver has to be polled
                if all(over):
                    self._finish(task, self.running.pop(task))

    def _look_at_nodes(self, task: int, attempt: Attempt) -> None:
        now = time.monotonic()
        for rank, child in attempt.nodes.items():
            if rank in attempt.codes or not child.exited:
                continue
            self._forget(child)
            if child.ended:
                code = child.reap()
                attempt.codes[rank] = ending.shell_code(code)
                if self._has_left(task, rank, code):
                    attempt.released.add(rank)
                self._ended(task, rank)
                if "elastic" in self.job:
                    self._replace(task, rank, code)
        if attempt.signal_at and now > attempt.signal_at and attempt.ending is None:
            attempt.signal_at = None
            self._send_signal(task, attempt)
        if attempt.deadline and now > attempt.deadline and attempt.ending is None:
            attempt.late = True
            hint = MPI_HINT if self.job["launch"] == "mpi" else ""
            self._end(attempt, f"timeout: not done after {self.job['timeout_s']} s{hint}")
        if attempt.ending and now > attempt.ending:
            self._kill(task, attempt)

    def _send_signal(self, task: int, attempt: Attempt) -> None:
        """Send the signal of the spec to the programs of all nodes, and say so in their logs."""
        name = self.job["signal"]["name"]
        for rank, child in attempt.nodes.items():
            node = Node(self.job, task, rank, self.tried[task])
            if rank in attempt.codes:
                continue
            line = program_hooks.signal_words(name, 1 if node.contained else child.process.pid)
            if node.contained:
                line = [self.job["engine"], "exec", node.container, *line]
            said = ""
            with contextlib.suppress(OSError):  # the engine does not answer
                said = engine(line[0], *line[1:]).stderr
            with durable.private_log(node.log) as log:
                log.write(said.encode())

    def _ended(self, task: int, rank: int) -> None:
        attempt = self.running[task]
        if rank in attempt.released:
            self._keep_away(task, rank)
            return
        if attempt.late:
            attempt.codes[rank] = TOO_LONG
        unable = self._why_unable(task, rank)
        code = attempt.codes[rank]
        told = unable or self._why_unprepared(task, rank)
        told = told or (exited(code) if code else "")
        if code and not attempt.reason and (full := full_disk(Path(self.job["folder"]))):
            told += f"; {full}"
        told = "" if attempt.late else told
        reason = told if not attempt.reason else f"{told}; {attempt.reason}".removeprefix("; ")
        unwanted = task in self.unwanted or attempt.reason == CANCELLED
        stopped = attempt.reason == STOP or (code and unwanted)
        state = "cancelled" if stopped else "succeeded" if code == 0 else "failed"
        setup = self._find_setup_end(task, rank)
        more = {} if setup is None or setup.took_s is None else {"setup_s": setup.took_s}
        self._tell(task, rank, state, exit_code=code, reason=reason, **more)
        if "elastic" in self.job:
            return
        after_the_first = self.job["launch"] != "none" and attempt.codes.get(0) == 0
        if code and not attempt.reason and not after_the_first:
            attempt.failed, attempt.unprepared = code, bool(self._why_unprepared(task, rank))
            where = f"node {rank} " if self.job["nodes"] > 1 else ""
            self._end(attempt, f"{where}{told}")
        elif rank == 0 and self.job["launch"] != "none":
            self._end(attempt, "")

    def _why_unable(self, task: int, rank: int) -> str:
        """Return why the container of a node could not start, or an empty string; its exit code then says so, too."""
        attempt, node = self.running[task], Node(self.job, task, rank, self.tried[task])
        if not node.contained or attempt.reason or rank not in attempt.nodes:
            return ""
        try:
            if not node.begun.stat().st_size or self._find_setup_end(task, rank) is not None:
                return ""
        except OSError:
            return ""
        first = attempt.network and attempt.network.code  # the nodes cannot start without it
        attempt.codes[rank] = ending.unstarted_code(first or attempt.codes[rank])
        attempt.unable = True
        with open(node.log, "rb") as log:
            log.seek(attempt.log_sizes[rank])
            said = log.read(ending.REASON_BYTES).decode(errors="replace")
        image, engine = self.job["container"]["image"], self.job["engine"]
        return f"{engine} could not start the image {image}: {ending.engine_reason(said)}"

    def _why_unprepared(self, task: int, rank: int) -> str:
        """Return that the setup of a node failed, or an empty string."""
        end = self._find_setup_end(task, rank)
        return program_hooks.FAILED.format(end.code) if end is not None and end.code else ""

    def _find_setup_end(self, task: int, rank: int) -> program_hooks.SetupEnd | None:
        number = self.running[task].tries.get(rank, self.tried[task])
        return program_hooks.ended(str(Node(self.job, task, rank, number).begun))

    def _has_left(self, task: int, rank: int, code: int) -> bool:
        """Return whether a node of an elastic job has ended because it was released, and not with the job."""
        if "elastic" not in self.job or self.running[task].ending is not None or self.asked:
            return False
        return elastic.lost(code) and elastic.released(self.job, task, rank)

    def _keep_away(self, task: int, rank: int) -> None:
        """Record that a released node has left, or was not started."""
        attempt = self.running[task]
        attempt.released.add(rank)
        code = attempt.codes.setdefault(rank, STOPPED)
        more = {"exit_code": code} if rank in attempt.nodes else {}
        self._tell(task, rank, "cancelled", reason=AWAY, **more)

    def _bring_back(self) -> None:
        """Start the released nodes again that were asked for since."""
        for task, attempt in self.running.items():
            if attempt.ending is not None or attempt.saving or self.asked:
                continue
            for rank in sorted(attempt.released):
                if not elastic.released(self.job, task, rank):
                    attempt.released.remove(rank)
                    attempt.returns[rank] = attempt.returns.get(rank, 0) + 1
                    self._start_again(task, rank)

    def _replace(self, task: int, rank: int, code: int) -> None:
        """Restart a node that was lost, or end the others if too few nodes are left for good."""
        attempt, left = self.running[task], self.job["elastic"]["min"]
        elastic.end_rest(self.job["run"], str(elastic.index(self.job, task, rank)))
        if not code or attempt.ending is not None or self.asked or rank in attempt.released:
            return
        lost = attempt.tries.get(rank, 1) - attempt.returns.get(rank, 0)
        if elastic.lost(code) and lost < self.job["spot_attempts"]:
            self._start_again(task, rank)
        elif len(attempt.left) < left and not elastic.over(self.job, task):
            why = self._why_unprepared(task, rank) or "they have no attempts left"
            self._end(attempt, f"fewer than {left} nodes are left, and {why}")

    def _start_again(self, task: int, rank: int) -> None:
        """Start another attempt of a node of an elastic job."""
        attempt = self.running[task]
        number = attempt.tries[rank] = attempt.tries.get(rank, 1) + 1
        attempt.codes.pop(rank, None)
        self._tell(task, rank, "running")
        try:
            self._start(Node(self.job, task, rank, number, attempt.devices[rank]), attempt)
        except OSError as exc:
            attempt.codes[rank] = 126
            self._end(attempt, not_started(exc, Path(self.job["folder"])))

    def _tell(self, task: int, rank: int, state: str, **more: Any) -> None:
        """Record the state of a node. Its time is for users: no decision depends on it."""
        at = round(time.time(), 3)
        number = self.tried.get(task, 0) + 1  # the next attempt, of a task that waits
        if task in self.running:
            number = self.running[task].tries.get(rank, self.tried[task])
        self.events.add("node", task=task, rank=rank, attempt=number, state=state, at=at, **more)

    def _tell_all(self, task: int, state: str, **more: Any) -> None:
        for rank in range(self.job["nodes"]):
            self._tell(task, rank, state, **more)

    def _end(self, attempt: Attempt, reason: str) -> None:
        """Ask the remaining nodes of *attempt* to end; only the first reason is recorded."""
        attempt.reason = attempt.reason or reason
        if attempt.ending is None:
            attempt.ending = time.monotonic() + self.job["grace_s"]
            if reason:
                for child in attempt.left:
                    child.send(signal.SIGTERM)

    def _kill(self, task: int, attempt: Attempt) -> None:
        attempt.ending = time.monotonic() + KILL_S
        self._remove_containers(task, attempt)
        for child in attempt.left:
            child.send(signal.SIGKILL)

    def _remove_containers(self, task: int, attempt: Attempt) -> None:
        """Remove the containers, and then the network that they share.

        If the engine does not answer now, destroying the run removes them.
        """
        if self.job["engine"] != "process":
            nodes = [Node(self.job, task, rank, self.tried[task]) for rank in attempt.nodes]
            names = [node.container for node in nodes]
            names += [nodes[0].network] if attempt.network is not None else []
            for name in names:
                # The engine does not start; the next attempt has containers of other names.
                with contextlib.suppress(OSError):
                    remove_container(self.job["engine"], name)
            if attempt.network is not None:
                attempt.network.let_go()
                attempt.network = None

    def _save(self, task: int, attempt: Attempt) -> None:
        """Start saving the outputs of the task; the supervisor continues meanwhile."""
        attempt.saving = True
        self._remove_containers(task, attempt)
        self.leases.give_back(task)
        for saver in attempt.savers:
            saver.begin_last()

    def _finish(self, task: int, attempt: Attempt) -> None:
        """Start another attempt of the task, or record its end."""
        self.times.end(task)
        by_rank = (attempt.codes[rank] for rank in sorted({*attempt.codes} - attempt.released))
        code = attempt.failed or next(filter(None, by_rank), 0)
        if "elastic" in self.job and 0 in attempt.codes.values():
            code = 0  # the job is over: a node without attempts was lost before
        if self.cancelled:
            code = code or (STOPPED if attempt.reason == CANCELLED else 0)
        elif attempt.late:
            code = TOO_LONG
        elif self.job["launch"] != "none" and attempt.codes.get(0) == 0 and not attempt.reason:
            code = 0  # the first node decides: it started the processes of the others
        reason = TIMEOUT if attempt.late else SETUP if attempt.unprepared else None
        again = self.tried[task] < self.job["attempts"] and "elastic" not in self.job
        again = again and not attempt.unable and not is_final(self.job, code, reason)
        if attempt.reason == STOP or (code and task in self.unwanted):
            self.stopped.add(task)
        elif code and again and not self.cancelled:
            if not self.asked:
                self.waiting.insert(0, task)
                return
            self.cancelled = True  # no further attempts are started
        self._tell_unsaved(task, attempt)  # not if another attempt follows, which saves again
        self.codes[task] = code
        self.reasons[task] = attempt.reason
        failed = sum(1 for code in self.wanted.values() if code)
        if code and failed >= self.job.get("max_failed", math.inf):
            self._stop({*self.waiting, *self.running} - self.unwanted)

    def _tell_unsaved(self, task: int, attempt: Attempt) -> None:
        for saver in attempt.savers:
            if not saver.saved:
                where = f" of node {saver.node.rank}" if self.job["nodes"] > 1 else ""
                message = f"output '{saver.output['name']}'{where} was not saved completely"
                message += f": {saver.why}" if saver.why else ""
                self.unsaved.append(message)
                self.events.add("unsaved", task=task, rank=saver.node.rank, reason=message)


def claim(folder: Path) -> bool:
    """Make this process the only one that ever runs the job in *folder*; return False if another one is.

    Raise FileNotFoundError if the folder was deleted meanwhile, even if there is a new one.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    how = os.O_RDWR | os.O_CREAT
    lock = os.open("supervisor.lock", how, 0o600, dir_fd=held)  # held until this process ends
    while not locked(lock):
        if (folder / "started.json").exists():
            return False
        time.sleep(CLAIM_PAUSE_S)  # another process is about to write it, or to end
    if not os.path.samestat(os.fstat(held), os.stat(folder)):
        raise FileNotFoundError(f"{folder} was deleted")
    if (folder / "started.json").exists():
        return False
    started = {"format": FORMAT, **identity()}
    durable.write(folder / "started.json", json.dumps(started).encode())
    return True


def supervise(folder: Path, leases: DeviceLeases, claimed: int) -> None:
    """Run the job in *folder*; secrets are read from standard input, and `ready` is written to standard output.

    A byte is written to *claimed* if this process has claimed the run.
    """
    secrets: dict[str, str] = json.loads(sys.stdin.buffer.read())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it may arrive as soon as the run is claimed
    first = claim(folder)
    if first:
        os.write(claimed, b"1")
    os.close(claimed)
    job = json.loads((folder / "job.json").read_bytes())  # of the claimed folder
    with contextlib.suppress(BrokenPipeError):  # the client may have ended: the run continues
        os.write(1, READY)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    if not first:
        return
    if job.get("namespace"):
        with contextlib.suppress(OSError):  # each node then reports that it gets no namespace
            mount_namespace.take_rights()
    events = Events(folder / "events.jsonl")
    sampler = start_sampler(folder, job)
    supervisor = Supervisor(job, secrets, events, leases)
    code = supervisor.run()
    end_sampler(sampler)
    end = describe_end(supervisor, code, folder / "supervisor.log")
    ending.add(events, end, lambda: supervisor.asked)


def describe_end(supervisor: Supervisor, code: int, log: Path) -> dict[str, Any]:
    """Return how the job has ended; *log* gets the details of lost outputs."""
    failed = bool(code or supervisor.unsaved)
    codes = supervisor.wanted
    early = supervisor.cancelled or not codes
    state = "cancelled" if early else "failed" if failed else "succeeded"
    reasons = [supervisor.reasons[t] for t in sorted(supervisor.reasons) if codes.get(t)]
    reason = supervisor.never if state != "failed" else ending.summary(codes, reasons)
    if state == "succeeded" and supervisor.stopped:
        reason = f"{len(supervisor.stopped)} tasks were stopped"
    if supervisor.unsaved:
        more = f"{'; '.join(supervisor.unsaved[:3])}: see {log}"
        reason = f"{reason}; {more}" if reason else more
    return {"state": state, "exit_code": code or (UNSAVED_CODE if failed else 0), "reason": reason}
