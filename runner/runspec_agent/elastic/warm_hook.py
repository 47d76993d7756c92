"""Pause a Python program before its first line, and let forks of it run as the workers of each generation.

The agent copies this file as `sitecustomize.py` into a folder that it puts first on PYTHONPATH, so it runs in the
program's own Python while that starts: https://docs.python.org/3/library/site.html#module-sitecustomize. Everything
after it, such as finding the program, `__main__` and the arguments, is done by Python itself in each fork.

It imports no other module of runspec. `RUNSPEC_WARM` is "observe", to write the frameworks that the program imports
into the file `imported`, or "serve", to import those of the file `names` and to wait at the socket `forks`.
"""

import os
import sys

TYPE_CHECKING = False  # without an import: what is imported here, the program finds imported
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Sequence
    from typing import Any

    Request = tuple[dict[str, Any], Sequence[int]]
    Handlers = dict[int, Any]

SETTING = "RUNSPEC_WARM"
IMPORTED, NAMES, FORKS = "imported", "names", "forks"
CHANGED = "!"  # in place of a name: the program had changed its environment before it imported a framework
# What takes long to import, and starts no thread and uses no GPU meanwhile; `can_fork` verifies that.
FRAMEWORKS = frozenset(
    "PIL accelerate datasets lightning numpy pandas pytorch_lightning safetensors scipy sklearn"
    " tokenizers torch torchaudio torchvision transformers".split()
)
# Differ between workers or generations, and no framework reads them while it is imported.
SIGNALS = ("HUP", "INT", "QUIT", "USR1", "USR2", "TERM")
VARYING = frozenset("MASTER_ADDR MASTER_PORT RANK WORLD_SIZE PWD OLDPWD SHLVL _".split())
VARYING_PREFIXES = ("RUNSPEC_", "TORCHELASTIC_", "TORCH_NCCL_", "LOCAL_", "GROUP_", "ROLE_")


class Observer:
    """A finder of modules that finds none, and writes down which frameworks the program imports itself."""

    def __init__(self, path: str) -> None:
        self.path, self.pid = path, os.getpid()
        self.before, self.last = environment(), ""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] not in FRAMEWORKS or os.getpid() != self.pid:
            return
        os.utime(self.path)  # the agent waits until nothing more is imported
        if self.nested():
            self.before = environment()  # what a framework changes, it changes in each process
            return
        self.last = name
        with open(self.path, "a") as file:
            file.write((name if environment() == self.before else CHANGED) + "\n")

    def nested(self) -> bool:
        """Return whether the import of a framework is under way, which imports what it needs."""
        spec = getattr(sys.modules.get(self.last), "__spec__", None)
        return bool(getattr(spec, "_initializing", False))


def environment() -> "dict[str, object]":
    return dict(getattr(os.environ, "_data", os.environ))  # not decoded, as it is compared often


def constant(env: "dict[str, str]") -> "dict[str, str]":
    """Return the variables of *env* that all workers have in common."""
    return {
        name: value
        for name, value in env.items()
        if name not in VARYING and not name.startswith(VARYING_PREFIXES)
    }


def can_fork(own: "set[str]") -> bool:
    """Return whether a fork of this process is as good as a new one; *own* are the modules that a new one has.

    OpenBLAS ends its threads before a fork, so threads are counted after one.
    """
    import threading

    if threading.active_count() > 1 or shadows(own):
        return False
    pid = os.fork()
    if pid == 0:
        cuda = sys.modules.get("torch.cuda")
        spoiled = cuda is not None and cuda._is_in_bad_fork()  # noqa: SLF001 - torch has no public name
        os._exit(1 if spoiled else 0)
    if os.waitpid(pid, 0)[1] != 0 or len(os.listdir("/proc/self/task")) > 1:
        return False
    return not any("/dev/nvidia" in target(fd) for fd in os.listdir("/proc/self/fd"))


def target(fd: str) -> str:
    try:
        return os.readlink("/proc/self/fd/" + fd)
    except OSError:  # that of the list itself
        return ""


def shadows(own: "set[str]") -> bool:
    """Return whether the program's folder has a module of its own with the name of one that is imported by now."""
    folder = os.getcwd()
    for word in words()[1:]:
        if word in ("-m", "-c"):
            break
        if not word.startswith("-"):
            folder = word if os.path.isdir(word) else os.path.dirname(os.path.realpath(word))
            break
    there = {name.partition(".")[0] for name in os.listdir(folder or ".")}
    return bool(there & ({name.partition(".")[0] for name in sys.modules} - own))


def words() -> "list[str]":
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


class Forks:
    """The forks of this process, each of which belongs to a launcher (`warm_launcher`) on a connection of its own."""

    def __init__(
        self, listener: "socket.socket", env: "dict[str, str]", handlers: "Handlers"
    ) -> None:
        self.handlers = handlers
        self.listener, self.constant, self.words = listener, constant(env), words()
        self.pids: dict[socket.socket, int] = {}
        self.ends: dict[int, int] = {}  # file descriptors that can be read when a fork has ended

    def serve(self) -> "Request":
        """Return in a fork, with what it was asked for; in this process, go on for ever."""
        import select

        while True:
            wait_s = 0.05 if len(self.ends) < len(self.pids) else None
            watched = [self.listener, *self.pids, *self.ends]
            ready = select.select(watched, [], [], wait_s)[0]  # type: ignore[type-var] # sockets and numbers
            self.reap()
            for one in ready:
                if one is self.listener:
                    asked = self.accept()
                    if asked is not None:
                        return asked
                elif one in self.pids and not one.recv(1):
                    self.abandon(one)

    def accept(self) -> "Request | None":
        import array
        import json
        import signal

        connection, fds = self.listener.accept()[0], array.array("i")
        connection.settimeout(10)
        try:
            text, extra = connection.recvmsg(65536, 64)[:2]
            for _, _, sent in extra:
                fds.frombytes(sent)
            while not text.endswith(b"\n"):
                more = connection.recv(65536)
                if not more:
                    raise OSError("the launcher has ended")
                text += more
            asked = json.loads(text.decode("ascii"))
            if not self.fits(asked, fds):
                raise OSError("it needs a new process")
        except (OSError, ValueError, LookupError):
            connection.close()
            close(fds)
            return None
        signal.pthread_sigmask(signal.SIG_BLOCK, self.handlers)  # until the fork has them again
        pid = os.fork()
        if pid == 0:
            self.leave(connection)
            return asked, fds
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self.handlers)
        close(fds)
        self.pids[connection] = pid
        if hasattr(os, "pidfd_open"):
            self.ends[os.pidfd_open(pid)] = pid  # novm
        self.tell(connection, pid)
        return None

    def fits(self, asked: "dict[str, Any]", fds: "Sequence[int]") -> bool:
        """Return whether a fork would be what a new process of the launcher is; the first word may be a script's."""
        same = asked["words"][1:] == self.words[len(self.words) - len(asked["words"]) + 1 :]
        terminals = [os.isatty(fd) for fd in fds] == [os.isatty(fd) for fd in range(3)]
        return same and terminals and constant(asked["env"]) == self.constant

    def leave(self, connection: "socket.socket") -> None:
        for one in [self.listener, connection, *self.pids]:
            one.close()
        close(self.ends)

    def reap(self) -> None:
        for connection, pid in list(self.pids.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.tell(connection, status)
                connection.close()
                del self.pids[connection]
                for fd in [fd for fd, one in self.ends.items() if one == pid]:
                    os.close(fd)
                    del self.ends[fd]

    def tell(self, connection: "socket.socket", number: int) -> None:
        try:
            connection.send(b"%d\n" % number)
        except OSError:  # the launcher was killed, which the next look finds
            pass

    def abandon(self, connection: "socket.socket") -> None:
        """Kill the fork of a launcher that has ended."""
        import signal

        try:
            os.killpg(self.pids[connection], signal.SIGKILL)
        except OSError:  # it has ended, too
            pass


def close(fds: "Iterable[int]") -> None:
    for fd in fds:
        os.close(fd)


def become(
    asked: "dict[str, Any]", fds: "Sequence[int]", more: "dict[str, str]", handlers: "Handlers"
) -> None:
    """Make this fork what the launcher was asked to start, with the variables *more* that frameworks have set."""
    import signal

    os.setsid()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(asked["cwd"])
    os.umask(asked["umask"])
    os.environ.clear()
    os.environ.update(asked["env"])
    os.environ.update(more)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)


def serve(here: str, own: "set[str]") -> None:
    """Import the frameworks, and wait until a fork is asked for; only the forks return."""
    import contextlib
    import gc
    import importlib
    import signal
    import socket

    # Slurm sends signals to all processes of a job: they are for the workers, and not for this process.
    numbers = [getattr(signal, "SIG" + name) for name in SIGNALS]
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    env, known_as = given(), rename("runspec-warm")
    for name in read(os.path.join(here, NAMES)):
        with contextlib.suppress(Exception):  # the program's own import may fail as well
            importlib.import_module(name)
    if not can_fork(own):
        os._exit(3)
    more = {name: value for name, value in os.environ.items() if env.get(name) != value}
    if hasattr(gc, "freeze"):
        gc.freeze()  # novm - 3.7 or newer: no fork looks for garbage in it, which takes most of its end
    folder = os.open(here, os.O_RDONLY)  # the path itself may be too long for a socket
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("/proc/self/fd/{}/{}.part".format(folder, FORKS))
    listener.listen(64)
    os.rename(os.path.join(here, FORKS + ".part"), os.path.join(here, FORKS))
    os.close(folder)
    asked, fds = Forks(listener, env, handlers).serve()
    rename(known_as)
    become(asked, fds, more, handlers)


def rename(name: str) -> str:
    """Set the short name of this process, and return the one that it had; see proc(5), comm."""
    with open("/proc/self/comm", "r+") as file:
        before = file.read().rstrip("\n")
        file.seek(0)
        file.write(name)
    return before


def given() -> "dict[str, str]":
    """Return the variables with which this process was started, but for those that are for this module."""
    with open("/proc/self/environ", "rb") as file:
        words = [os.fsdecode(word).partition("=") for word in file.read().split(b"\0") if word]
    found = {name: value for name, _, value in words if name != SETTING}
    found.update({"PYTHONPATH": found.get("PYTHONPATH", "").partition(os.pathsep)[2]})
    return {name: value for name, value in found.items() if value or name != "PYTHONPATH"}


def read(path: str) -> "list[str]":
    with open(path) as file:
        return file.read().split()


def give_way(here: str) -> None:
    """Let the image's own sitecustomize run, in this module's place."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    rest = os.environ.pop("PYTHONPATH", "").partition(os.pathsep)[2]
    if rest:
        os.environ["PYTHONPATH"] = rest
    mine = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 - that of the image, if any
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", mine)


def main(here: str) -> None:
    own = {name.partition(".")[0] for name in sys.modules}
    setting = os.environ.pop(SETTING)
    if setting == "observe":
        give_way(here)
        try:
            sys.meta_path.insert(0, Observer(os.path.join(here, IMPORTED)))
        except OSError:  # another process observes
            pass
        return
    try:
        give_way(here)
        serve(here, own)
    except BaseException:  # noqa: BLE001 - never run the program in this process
        os._exit(4)


if __name__ == "sitecustomize" and SETTING in os.environ:
    main(os.path.dirname(os.path.abspath(__file__)))
