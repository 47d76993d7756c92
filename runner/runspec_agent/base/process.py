"""Run a program as the first process of a container should: pass signals on, return its exit code, leave no process.

A shell in this place does not pass SIGTERM on, so the program could not save its state.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Set, Type, Union

from runspec_agent.base.job_env import STOPPED, Failure
from runspec_agent.base.program_hooks import OURS

LONGEST_S = 0.5
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
STOPS = (signal.SIGTERM, signal.SIGINT)

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36

Output = Union[int, None]


def _find_prctl() -> Optional[Callable[[int, int], int]]:
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes  # small builds of Python lack ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        # Without prctl, descendants that leave the session are not adopted.
        return None
    return lambda option, value: int(prctl(option, value, 0, 0, 0))


_PRCTL = _find_prctl()


def die_with_parent() -> None:
    if _PRCTL is not None:
        _PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent has ended, as process 1 does (PR_SET_CHILD_SUBREAPER).

    So no process that a launcher leaves behind can escape, in a container or outside. See prctl(2).
    """
    if _PRCTL is not None:
        _PRCTL(PR_SET_CHILD_SUBREAPER, 1)


class Pace:
    """The time to wait between two polls: it grows, since a job that has run for hours can be polled less often."""

    def __init__(self, first_s: float = 0.1, longest_s: float = LONGEST_S) -> None:
        self.first_s = first_s
        self.longest_s = longest_s
        self.start()

    def start(self) -> None:
        """Begin again with short waits, because something has happened and more may follow."""
        self._began = time.monotonic()

    def pause_s(self) -> float:
        """Return a twentieth of the time since the start, within its bounds."""
        waited_s = time.monotonic() - self._began
        return min(self.longest_s, max(self.first_s, waited_s / 20))


class Signals:
    """The signals of this process as a list to look at between two steps, instead of at any moment."""

    stopping = False  # whether a signal has asked this process to end

    def __enter__(self) -> "Signals":  # noqa: PYI034 - typing.Self needs a newer Python
        _name_process()
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        self._old_fd = signal.set_wakeup_fd(self._write)
        # A handler, unlike SIG_IGN, is set back to the default in the programs we start.
        wanted = (*FORWARDED, signal.SIGCHLD)
        self._old = {number: signal.signal(number, lambda *_: None) for number in wanted}
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        os.close(self._read)
        os.close(self._write)

    def leave(self) -> None:
        """Restore the default handlers in a fork of this process; signals that have arrived belong to the parent."""
        signal.set_wakeup_fd(-1)
        for number in self._old:
            signal.signal(number, signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        """Return what `select` calls readable when `wait` would return at once."""
        return self._read

    def wait(self, seconds: float) -> List[int]:
        """Return the signals that arrived, after *seconds* at most; SIGCHLD ends the wait and is not listed."""
        ready, _, _ = select.select([self._read], [], [], seconds)
        if not ready:
            return []
        heard = [number for number in os.read(self._read, 4096) if number in FORWARDED]
        self.stopping = self.stopping or any(number in STOPS for number in heard)
        return heard


def _name_process() -> None:
    """Name this process, so that it is told apart from those of the program: see `program_hooks`."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as stream:  # on Linux
        stream.write(OURS)


class Child:
    """A program in a session of its own: a signal to the agent's process group reaches it once, through the agent."""

    code: Optional[int] = None
    _kill_at: Optional[float] = None
    _rest: Iterable[int] = ()  # the processes that the child had started when it was asked to stop
    _rest_asked = False

    def __init__(
        self,
        argv: Iterable[str],
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        stdin: Output = None,
        stdout: Output = None,
        stderr: Output = None,
    ) -> None:
        """Start *argv*. Raise Failure with code 127 or 126, as a shell would exit, if it cannot be started."""
        argv = list(argv)
        try:
            self._popen = subprocess.Popen(
                argv,
                env=None if env is None else dict(env),
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it takes no lock that another thread could hold
            )
        except FileNotFoundError:
            raise Failure("'{}': command not found".format(argv[0]), 127) from None
        except OSError as error:
            raise Failure("'{}': {}".format(argv[0], error.strerror or error), 126) from error
        self.pid = self._popen.pid

    def members(self) -> "List[Child]":
        """Return the processes whose exit statuses `reap` collects."""
        return [self]

    def send(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def stop(self, grace_s: float, number: int = signal.SIGTERM) -> None:
        """Send *number* to the program; `tick` kills its processes *grace_s* after the first call."""
        if self.code is None and self._kill_at is None:
            self._rest = descendants(self.pid)
        self.send(number)
        self._kill_in(grace_s)

    def is_over(self) -> bool:
        """Return whether it has ended; after `stop`, also whether all that it had started has, or the time is over.

        A shell ends at SIGTERM while a program of its script saves, and torchrun at a second one, which Slurm sends to
        all processes of a job. What such a launcher leaves behind gets SIGTERM and the rest of the grace period.
        """
        if self.code is None:
            return False
        if self._rest and self._kill_at is not None and time.monotonic() < self._kill_at:
            self._rest = descendants(os.getpid()).intersection(self._rest)
            for pid in () if self._rest_asked else self._rest:
                with contextlib.suppress(OSError):  # the process has already ended
                    os.kill(pid, signal.SIGTERM)
            self._rest_asked = True
            return not self._rest
        return True

    def _kill_in(self, grace_s: float) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + grace_s

    def give_up(self, grace_s: float) -> None:
        """Stop the program because it cannot succeed any more; unlike `stop`, its exit code is not replaced by 143."""
        self.stop(grace_s)

    def tick(self) -> None:
        if self.code is None and self._kill_at is not None and time.monotonic() >= self._kill_at:
            self.kill()

    def kill(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:  # the process group is empty
            pass

    def finished(self, status: int) -> None:
        self.code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self._popen.returncode = self.code

    @property
    def exit_code(self) -> int:
        assert self.code is not None, "BUG: the program still runs"
        return 128 - self.code if self.code < 0 else self.code


def reap(children: Iterable[Child]) -> bool:
    """Collect the exit statuses of all processes that have ended: children, and adopted orphans.

    Return whether children are left that have not ended.
    """
    by_pid = {child.pid: child for child in children}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:  # ECHILD: there are no children left
            return False
        if pid == 0:
            return True
        if pid in by_pid:
            by_pid[pid].finished(status)


def kill_rest(patience_s: float = 5.0, spared: int = 0) -> None:
    """Kill all descendants of this process but *spared*, also those in other groups or sessions, and wait for them."""
    if not reap(()):  # without a child there is no descendant, and reading /proc takes long
        return
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        rest = descendants(os.getpid()) - {spared}
        if not rest:
            return
        for pid in rest:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:  # the process has already ended
                pass
        reap(())
        time.sleep(0.01)


def descendants(pid: int) -> Set[int]:
    """Return the ids of all descendants of *pid*; an empty set if there is no /proc."""
    children: Dict[int, List[int]] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        parent = _parent(entry) if entry.isdigit() else None
        if parent is not None:
            children.setdefault(parent, []).append(int(entry))
    known: Set[int] = set()
    todo = [pid]
    while todo:
        new = children.get(todo.pop(), [])
        known.update(new)
        todo.extend(new)
    return known


def _parent(pid: str) -> Optional[int]:
    try:
        with open("/proc/{}/stat".format(pid), "rb") as stream:
            # proc(5): pid (name) state ppid; the name may contain any character, also brackets
            return int(stream.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return None


def run(
    child: Child,
    signals: Signals,
    grace_s: float,
    each: Optional[Callable[[], Optional[Failure]]] = None,
    keep_rest: bool = False,
) -> int:
    """Wait until *child* ends, and return the exit code for this node; no process of it is left then.

    With *keep_rest*, a child that succeeds may leave some, which a later program needs.

    The code is the child's own, 128 + n after signal n, and 143 after a SIGTERM to the agent, even if the child ends
    differently (torchrun exits with 1, which a scheduler would take for a failure). *each* is called several times a
    second; a Failure that it returns stops the child and is raised.
    """
    asked = False
    failure: Optional[Failure] = None
    pace = Pace(0.2)
    while not child.is_over():
        for number in signals.wait(pace.pause_s()):
            pace.start()
            if number in STOPS:
                asked = asked or number == signal.SIGTERM
                child.stop(grace_s, number)
            else:
                child.send(number)
        reap(child.members())
        if each is not None and failure is None:
            failure = each()
            if failure is not None:
                pace.start()
                child.give_up(grace_s)
        child.tick()
    if not (keep_rest and child.code == 0):
        kill_rest()
    if asked:
        return STOPPED
    if failure is not None:
        raise failure
    return child.exit_code
