"""The process that stays with a run when the terminal has gone: it starts nodes and tells how they end.

Standard library only, and one thread: it sleeps until a process ends or a time is up.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from runspec_local.engine import await_container, remove_container
from runspec_local.events import Events
from runspec_local.node import Node
from runspec_local.process import die_with_parent, identity

STOPPED = 143  # of a job that was told to end: 128 + SIGTERM
KILL_S = 5.0  # from SIGKILL to giving a process up
READY = b"ready\n"


@dataclass
class Child:
    """A process of ours."""

    process: subprocess.Popen[bytes]
    pidfd: int

    def send(self, number: int) -> None:
        """Signal its process group, or only itself when the group has gone."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


def start_child(argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: BinaryIO) -> Child:
    """Start *argv* as the leader of its own process group, which ends with this process."""
    process = subprocess.Popen(
        argv,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - this process has one thread
    )
    return Child(process, os.pidfd_open(process.pid))


@dataclass
class Attempt:
    """One try of one task: its nodes, and when they must have ended."""

    nodes: dict[int, Child]
    savers: list[Child]
    deadline: float | None
    codes: dict[int, int] = field(default_factory=dict)
    reason: str = ""
    ending: float | None = None  # when the nodes that are left are killed

    @property
    def left(self) -> list[Child]:
        return [child for rank, child in self.nodes.items() if rank not in self.codes]


class Supervisor:
    """Runs the tasks of one job until all have ended."""

    def __init__(self, job: Mapping[str, Any], secrets: Mapping[str, str], events: Events) -> None:
        self.job = job
        self.secrets = secrets
        self.events = events
        self.waiting = list(range(len(job["tasks"])))
        self.tried: dict[int, int] = {}
        self.running: dict[int, Attempt] = {}
        self.codes: dict[int, int] = {}
        self.reasons: dict[int, str] = {}
        self.asked = False  # to end early
        self.cancelled = False  # something was ended early
        self.poll = select.poll()
        self.wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken)
        self.poll.register(self.wake, select.POLLIN)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        if number != signal.SIGHUP:  # the terminal has gone: that is what we are here for
            self.asked = True

    def run(self) -> int:
        """Run all tasks; give the exit code of the job, that of its first task to fail."""
        while self.waiting or self.running:
            if self.asked or self._cancel_file():
                self._cancel()
            while self.waiting and len(self.running) < self.job["max_parallel"]:
                self._begin(self.waiting.pop(0))
            if self.running:
                self._sleep()
                self._look()
        failed = [code for code in (self.codes[task] for task in sorted(self.codes)) if code]
        return failed[0] if failed else 0

    def _cancel_file(self) -> bool:
        return Path(self.job["folder"], "cancel").exists()

    def _cancel(self) -> None:
        self.cancelled = True
        for task in self.waiting:
            self.codes[task] = STOPPED
        self.waiting = []
        for attempt in self.running.values():
            self._end(attempt, "cancelled")

    def _begin(self, task: int) -> None:
        number = self.tried[task] = self.tried.get(task, 0) + 1
        nodes = [Node(self.job, task, rank, number) for rank in range(self.job["nodes"])]
        limit_s = self.job["timeout_s"]
        attempt = Attempt({}, [], time.monotonic() + limit_s if limit_s else None)
        self.running[task] = attempt
        for node in nodes:
            self.events.add("node", task=task, rank=node.rank, attempt=number, state="running")
            try:
                self._start(node, attempt)
            except OSError as exc:
                attempt.codes[node.rank] = 127 if isinstance(exc, FileNotFoundError) else 126
                self._end(attempt, f"cannot start: {exc.filename}: {(exc.strerror or '').lower()}")
                self._ended(task, node.rank)
                return

    def _start(self, node: Node, attempt: Attempt) -> None:
        node.prepare()
        if node.contained and node.rank:
            first = attempt.nodes[0].process
            await_container(self.job["engine"], node.first, lambda: first.poll() is not None)
        environment = node.environment(os.environ, self.secrets)
        with node.log.open("ab") as log:
            child = start_child(node.argv(), environment, node.folder, log)
        attempt.nodes[node.rank] = child
        self.poll.register(child.pidfd, select.POLLIN)
        for output in self.job["outputs"]:
            if output["sync_s"]:
                attempt.savers.append(self._saver(node, output, "--every", str(output["sync_s"])))

    def _saver(self, node: Node, output: Mapping[str, Any], *how: str) -> Child:
        """Start what copies an output of *node* to where it is kept."""
        program = str(Path(self.job["folder"], "runspec_inside.pyz"))
        places = (str(node.written(output)), str(node.saved(output)))
        node.saved(output).mkdir(parents=True, exist_ok=True)
        with Path(self.job["folder"], "supervisor.log").open("ab") as log:
            line = [sys.executable, "-I", program, "sync", *how, *places]
            return start_child(line, dict(os.environ), Path(self.job["folder"]), log)

    def _sleep(self) -> None:
        """Sleep until a process ends, a signal comes, or the next time is up."""
        if any(not attempt.left for attempt in self.running.values()):
            return
        times = [t for a in self.running.values() for t in (a.deadline, a.ending) if t is not None]
        pause = None if not times else max(0, min(times) - time.monotonic()) * 1000 + 1
        self.poll.poll(pause)
        try:
            os.read(self.wake, 512)
        except BlockingIOError:
            pass

    def _look(self) -> None:
        now = time.monotonic()
        for task, attempt in list(self.running.items()):
            for rank, child in attempt.nodes.items():
                if rank not in attempt.codes and child.process.poll() is not None:
                    attempt.codes[rank] = shell_code(child.process.returncode)
                    self.poll.unregister(child.pidfd)
                    os.close(child.pidfd)
                    self._ended(task, rank)
            if attempt.deadline and now > attempt.deadline and attempt.ending is None:
                self._end(attempt, f"timeout: not done after {self.job['timeout_s']} s")
            if attempt.ending and now > attempt.ending:
                self._kill(task, attempt)
            if not attempt.left:
                self._finish(task, self.running.pop(task))

    def _ended(self, task: int, rank: int) -> None:
        attempt = self.running[task]
        code = attempt.codes[rank]
        state = "succeeded" if code == 0 else "failed"
        self.events.add(
            "node", task=task, rank=rank, attempt=self.tried[task], state=state, exit_code=code
        )
        after_the_first = self.job["launch"] != "none" and attempt.codes.get(0) == 0
        if code and not attempt.reason and not after_the_first:
            where = f"node {rank} " if self.job["nodes"] > 1 else ""
            self._end(attempt, f"{where}exited with code {code}{meaning(code)}")
        elif rank == 0 and self.job["launch"] != "none":
            self._end(attempt, "")

    def _end(self, attempt: Attempt, reason: str) -> None:
        """Ask the nodes of *attempt* that are left to end; the first reason is the one told."""
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
        """Take the containers away, the first one last: the others share its network."""
        if self.job["engine"] != "process":
            for rank in sorted(attempt.nodes, reverse=True):
                node = Node(self.job, task, rank, self.tried[task])
                remove_container(self.job["engine"], node.container)

    def _finish(self, task: int, attempt: Attempt) -> None:
        """Save what the task wrote, then try it again or leave it as it ended."""
        self._remove_containers(task, attempt)
        for child in attempt.nodes.values():
            child.send(signal.SIGKILL)  # what its group left behind
        self._save(task, attempt)
        code = next((attempt.codes[r] for r in sorted(attempt.codes) if attempt.codes[r]), 0)
        if self.cancelled:
            code = code or (STOPPED if attempt.reason == "cancelled" else 0)
        elif attempt.reason.startswith("timeout"):
            code = code or STOPPED
        elif self.job["launch"] != "none" and attempt.codes.get(0) == 0 and not attempt.reason:
            code = 0  # the first node speaks for all: it started the processes of the others
        if code and not self.cancelled and self.tried[task] < self.job["attempts"]:
            self.waiting.insert(0, task)
            return
        self.codes[task] = code
        self.reasons[task] = attempt.reason

    def _save(self, task: int, attempt: Attempt) -> None:
        for child in attempt.savers:
            child.send(signal.SIGTERM)
        savers = list(attempt.savers)
        for rank in attempt.nodes:
            node = Node(self.job, task, rank, self.tried[task])
            savers += [
                self._saver(node, output, "--once")
                for output in self.job["outputs"]
                if not output["sync_s"]
            ]
        for child in savers:
            if child.process.wait():
                self.events.add("unsaved", task=task, exit_code=child.process.returncode)
            os.close(child.pidfd)


def shell_code(code: int) -> int:
    """Give an exit code as a shell does: 128 + n for a process that signal n ended."""
    return code if code >= 0 else 128 - code


def meaning(code: int) -> str:
    """Say what an exit code means where it means something."""
    known = {126: "cannot be executed", 127: "command not found"}
    if code in known:
        return f" ({known[code]})"
    if code > 128 and code - 128 in set(signal.Signals):
        name = signal.Signals(code - 128).name
        return f" ({name}: perhaps out of memory)" if name == "SIGKILL" else f" ({name})"
    return ""


def claim(folder: Path) -> bool:
    """Make this process the only one that ever runs the job in *folder*; False when one did."""
    lock = os.open(folder / "supervisor.lock", os.O_RDWR | os.O_CREAT, 0o600)  # held until we end
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    if (folder / "started.json").exists():
        return False
    temporary = folder / ".started.json.new"
    temporary.write_text(json.dumps(identity()))
    os.rename(temporary, folder / "started.json")
    return True


def supervise(folder: Path) -> None:
    """Run the job in *folder*; secrets come on standard input, and `ready` goes to standard output."""
    secrets: dict[str, str] = json.loads(sys.stdin.buffer.read())
    job = json.loads((folder / "job.json").read_bytes())
    first = claim(folder)
    with contextlib.suppress(BrokenPipeError):  # whoever asked may have died: the run goes on
        os.write(1, READY)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    if not first:
        return
    events = Events(folder / "events.jsonl")
    supervisor = Supervisor(job, secrets, events)
    code = supervisor.run()
    state = "cancelled" if supervisor.cancelled else "failed" if code else "succeeded"
    reasons = [supervisor.reasons[t] for t in sorted(supervisor.reasons) if supervisor.codes[t]]
    reason = "" if state != "failed" else summary(supervisor.codes, reasons)
    events.add("end", durable=True, state=state, exit_code=code, reason=reason)


def summary(codes: Mapping[int, int], reasons: Sequence[str]) -> str:
    """Say why the job failed: the only task's reason, or how many failed and the first's."""
    failed = [task for task, code in codes.items() if code]
    if len(codes) == 1:
        return reasons[0] if reasons else ""
    return f"{len(failed)} of {len(codes)} tasks failed; task {min(failed)} {reasons[0]}"


def main() -> None:
    supervise(Path(sys.argv[1]))
