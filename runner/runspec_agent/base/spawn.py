"""Start a program as `subprocess.Popen` does, whose import takes as long as starting ten programs."""

import errno
import os
import signal
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

NULL = -3  # subprocess.DEVNULL
# Python ignores them, and programs expect the default: subprocess, `restore_signals`.
IGNORED = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name))
# Signals of this process that have handlers; a child has the default for them.
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD)


class _Start(NamedTuple):
    """What a fork of this process needs to become the program, without an import or a search."""

    paths: Sequence[str]  # to be tried in this order
    argv: List[str]
    env: Dict[str, str]
    cwd: Optional[str]
    streams: Sequence[Optional[int]]
    parent: int
    mask: Any
    first: Callable[[], None]


def spawn(
    argv: Sequence[str],
    env: Optional[Mapping[str, str]],
    cwd: Optional[str],
    streams: Sequence[Optional[int]],
    first: Callable[[], None],
) -> int:
    """Start *argv* in a session of its own, and return its process id. Raise OSError if it cannot be started.

    *streams* are its stdin, stdout and stderr: None (those of this process), NULL or a descriptor. *first* is called
    in the new process. No signal reaches it before its handlers are the default ones.
    """
    own: Dict[str, str] = dict(os.environ if env is None else env)
    read, write = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        start = _Start(
            places(argv[0], own), list(argv), own, cwd, streams, os.getpid(), mask, first
        )
        pid = os.fork()
        if pid == 0:
            _become(start, write)
    except BaseException:
        os.close(read)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(write)
    with open(read, "rb") as stream:
        said = stream.read()  # it is closed when the program begins
    if said:
        os.waitpid(pid, 0)
        raise OSError(int(said), os.strerror(int(said)))
    return pid


def _become(start: _Start, write: int) -> None:
    """Become the program, or write the number of the error and exit; never return."""
    code = errno.EINVAL
    try:
        os.setsid()
        start.first()
        if os.getppid() != start.parent:  # it ended before `first` took effect
            os._exit(1)
        for number in (*HANDLED, *IGNORED):
            if number in IGNORED or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        _place_streams(start.streams)
        _close_others(write)
        if start.cwd is not None:
            os.chdir(start.cwd)
        signal.pthread_sigmask(signal.SIG_SETMASK, start.mask)
        code = _run(start)
    except OSError as error:
        code = error.errno or code
    finally:
        os.write(write, str(code).encode("ascii"))
        os._exit(127)


def _run(start: _Start) -> int:
    """Execute the program at the first of its places; return the number of the error if there is none."""
    code = errno.ENOENT
    for path in start.paths:
        try:
            os.execve(path, start.argv, start.env)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR) and code == errno.ENOENT:
                code = error.errno or code
    return code


def _place_streams(streams: Sequence[Optional[int]]) -> None:
    """Make *streams* the descriptors 0 to 2, of copies that are none of these."""
    copies = [None if one is None else _copy(one) for one in streams]
    for number, copied in enumerate(copies):
        if copied is not None:
            os.dup2(copied, number)


def _copy(stream: int) -> int:
    found = os.open(os.devnull, os.O_RDWR) if stream == NULL else os.dup(stream)
    return found if found > 2 else _copy(found)


def _close_others(write: int) -> None:
    """Close what this process itself has inherited; what it has opened is closed by exec."""
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        number = int(name)
        if number > 2 and number != write and _is_inherited(number):
            os.close(number)


def _is_inherited(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # it was that of the list
        return False


def places(program: str, env: Mapping[str, str]) -> List[str]:
    """Return the paths at which *program* is looked for.

    >>> places("a", {"PATH": "/x:/y"}), places("./a", {})
    (['/x/a', '/y/a'], ['./a'])
    """
    if os.path.dirname(program):
        return [program]
    return [os.path.join(folder, program) for folder in env.get("PATH", os.defpath).split(":")]
