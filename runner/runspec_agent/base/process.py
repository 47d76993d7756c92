"""Running a program as the first process of a container should: signals go in, the exit code comes out, nothing stays.

A shell in this place swallows SIGTERM, and a job loses what it would have saved.
"""

import os
import select
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Set, Type, Union

from runspec_agent.base.job_env import STOPPED, Failure

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
        import ctypes  # small builds of Python go without

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    return lambda option, value: int(prctl(option, value, 0, 0, 0))


_PRCTL = _find_prctl()


def die_with_parent() -> None:
    if _PRCTL is not None:
        _PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, as process 1 is (PR_SET_CHILD_SUBREAPER in prctl(2)).

    So nothing that a launcher leaves behind can get away, in a container or not.
    """
    if _PRCTL is not None:
        _PRCTL(PR_SET_CHILD_SUBREAPER, 1)


class Pace:
    """How long to wait before looking again: longer and longer, for a job that has run for hours can wait."""

    def __init__(self, first_s: float = 0.1, longest_s: float = LONGEST_S) -> None:
        self.first_s = first_s
        self.longest_s = longest_s
        self.start()

    def start(self) -> None:
        """Begin anew: something has happened, and more may follow."""
        self._began = time.monotonic()

    def pause_s(self) -> float:
        """Return a twentieth of the time since the start, within its bounds."""
        waited_s = time.monotonic() - self._began
        return min(self.longest_s, max(self.first_s, waited_s / 20))


class Signals:
    """The signals of this process as a list to look at between two steps, instead of at any moment."""

    stopping = False  # whether one has asked this process to end

    def __enter__(self) -> "Signals":  # noqa: PYI034 - typing.Self needs a newer Python
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
        """Be without them in a fork of this process, as any program begins; what comes in there is not for us."""
        signal.set_wakeup_fd(-1)
        for number in self._old:
            signal.signal(number, signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)

    def wait(self, seconds: float) -> List[int]:
        """Return what has come in, after *seconds* at most; a child's end wakes it up and is not listed."""
        ready, _, _ = select.select([self._read], [], [], seconds)
        if not ready:
            return []
        found = [number for number in os.read(self._read, 4096) if number in FORWARDED]
        self.stopping = self.stopping or any(number in STOPS for number in found)
        return found


class Child:
    """One program in a session of its own: a signal to our group reaches it once, through us."""

    def __init__(
        self,
        argv: Iterable[str],
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        stdin: Output = None,
        stdout: Output = None,
        stderr: Output = None,
    ) -> None:
        """Raise Failure 127 or 126, as a shell would end, when *argv* cannot be started."""
        self.code: Optional[int] = None
        self._kill_at: Optional[float] = None
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
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it takes no lock that a thread of ours could hold
            )
        except FileNotFoundError:
            raise Failure("'{}': command not found".format(argv[0]), 127) from None
        except OSError as error:
            raise Failure("'{}': {}".format(argv[0], error.strerror or error), 126) from error
        self.pid = self._popen.pid

    def send(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def stop(self, grace_s: float, number: int = signal.SIGTERM) -> None:
        """Ask the program to end; `tick` kills what is still there *grace_s* later, counted from the first asking."""
        self.send(number)
        self._kill_in(grace_s)

    def _kill_in(self, grace_s: float) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + grace_s

    def give_up(self, grace_s: float) -> None:
        """End the program because there is no sense in going on, not because we were asked to."""
        self.stop(grace_s)

    def tick(self) -> None:
        if self.code is None and self._kill_at is not None and time.monotonic() >= self._kill_at:
            self.kill()

    def kill(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:  # there is nobody left in it
            pass

    def finished(self, status: int) -> None:
        self.code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self._popen.returncode = self.code

    @property
    def exit_code(self) -> int:
        assert self.code is not None, "BUG: the program still runs"
        return 128 - self.code if self.code < 0 else self.code


def reap(children: Iterable[Child]) -> bool:
    """Take the ends of all processes that have ended: ours, and orphans that were handed to us.

    Return whether there are more that have not.
    """
    by_pid = {child.pid: child for child in children}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if pid in by_pid:
            by_pid[pid].finished(status)


def kill_rest(patience_s: float = 5.0) -> None:
    """Kill whatever descends from this process, also what has left its group or session, and wait for the ends."""
    if not reap(()):  # who has no child has no descendant, and /proc is long
        return
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        rest = descendants(os.getpid())
        if not rest:
            return
        for pid in rest:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:  # it was faster
                pass
        reap(())
        time.sleep(0.01)


def descendants(pid: int) -> Set[int]:
    """Return all processes under *pid*; none where there is no /proc."""
    children: Dict[int, List[int]] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        parent = _parent(entry) if entry.isdigit() else None
        if parent is not None:
            children.setdefault(parent, []).append(int(entry))
    found: Set[int] = set()
    todo = [pid]
    while todo:
        new = children.get(todo.pop(), [])
        found.update(new)
        todo.extend(new)
    return found


def _parent(pid: str) -> Optional[int]:
    try:
        with open("/proc/{}/stat".format(pid), "rb") as stream:
            # proc(5): pid (name) state ppid; the name may hold anything, also brackets
            return int(stream.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return None


def run(
    child: Child,
    signals: Signals,
    grace_s: float,
    each: Optional[Callable[[], Optional[Failure]]] = None,
) -> int:
    """Stay with *child* until it ends, and return the exit code for this node; nothing of it is left then.

    The code is the child's own, 128 + n after signal n, and 143 when a SIGTERM asked us to stop, whatever the child
    made of that (torchrun makes it 1, which a scheduler could not tell from a failure). *each* is called several
    times a second; a Failure it returns stops the child and is raised.
    """
    asked = False
    failure: Optional[Failure] = None
    pace = Pace(0.2)
    while child.code is None:
        for number in signals.wait(pace.pause_s()):
            pace.start()
            if number in STOPS:
                asked = asked or number == signal.SIGTERM
                child.stop(grace_s, number)
            else:
                child.send(number)
        reap((child,))
        if each is not None and failure is None:
            failure = each()
            if failure is not None:
                pace.start()
                child.give_up(grace_s)
        child.tick()
    kill_rest()
    if asked:
        return STOPPED
    if failure is not None:
        raise failure
    return child.exit_code
