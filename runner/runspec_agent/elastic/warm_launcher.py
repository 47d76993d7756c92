"""Start a worker: as a fork of the process that `warm_hook` has prepared, or else as a new process.

    python -IS warm_launcher.py FOLDER WORD...

It is a program of its own, so that torchrun and the agent have a process that they can signal and wait for. A fork is
in a session of its own, gets each signal that this process gets, and is killed with it. This process ends as it does.
It imports no other module of runspec.
"""

import array
import json
import os
import signal
import socket
import sys

TYPE_CHECKING = False  # typing takes a third of the time that this program takes
if TYPE_CHECKING:
    from typing import TextIO

PASSED_ON = ("HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "CONT", "WINCH")


class Launcher:
    def __init__(self, folder: str, words: "list[str]") -> None:
        self.folder, self.words = folder, words
        self.pid: int | None = None
        self.early: list[int] = []  # signals that arrived before there was a fork
        for name in PASSED_ON:
            signal.signal(getattr(signal, "SIG" + name), self.pass_on)

    def pass_on(self, number: int, _: object) -> None:
        if self.pid is None:
            self.early.append(number)
        else:
            self.send(number)

    def send(self, number: int) -> None:
        assert self.pid is not None, "BUG: there is no fork"
        try:
            # torchrun signals all processes of a worker's session, and the agent the worker alone.
            (os.killpg if "TORCHELASTIC_RUN_ID" in os.environ else os.kill)(self.pid, number)
        except OSError:  # it has ended
            pass

    def ask(self) -> "socket.socket | None":
        """Return a connection on which a fork is told of, or None if there is none to be had."""
        try:
            folder = os.open(self.folder, os.O_RDONLY)
            connection = socket.socket(socket.AF_UNIX)
            connection.connect("/proc/self/fd/{}/forks".format(folder))
            os.close(folder)
            mask = os.umask(0o77)
            os.umask(mask)
            asked = {"words": self.words, "env": dict(os.environ), "umask": mask}
            asked["cwd"] = os.getcwd()
            text = json.dumps(asked).encode("ascii") + b"\n"
            fds = array.array("i", [0, 1, 2])
            sent = connection.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            connection.sendall(text[sent:])
            return connection
        except OSError:  # no process listens yet: the worker starts anew
            return None

    def run(self) -> None:
        with open("/proc/self/environ", "rb") as file:
            if b"\0LC_CTYPE=" not in b"\0" + file.read():
                os.environ.pop("LC_CTYPE", None)  # Python has set it for itself, see PEP 538
        connection = self.ask()
        if connection is not None:
            replies = connection.makefile()
            first = replies.readline()
            if first:
                self.follow(int(first), replies)
        self.begin()

    def follow(self, pid: int, replies: "TextIO") -> None:
        """End as the fork *pid* does."""
        self.pid = pid
        for number in self.early:
            self.send(number)
        last = replies.readline()
        if not last:  # the process that was forked has been killed
            self.send(signal.SIGKILL)
            os._exit(137)
        status = int(last)
        if os.WIFSIGNALED(status):
            die(os.WTERMSIG(status))
        os._exit(os.WEXITSTATUS(status))

    def begin(self) -> None:
        """Become the worker itself, and have its imports observed if nobody has observed them yet."""
        for name in (*PASSED_ON, "PIPE", "XFSZ"):
            signal.signal(getattr(signal, "SIG" + name), signal.SIG_DFL)
        for number in self.early:
            die(number)
        if os.path.exists(self.folder) and not os.path.exists(self.folder + "/imported"):
            path = os.environ.get("PYTHONPATH")
            os.environ["PYTHONPATH"] = self.folder + (os.pathsep + path if path else "")
            os.environ["RUNSPEC_WARM"] = "observe"
        try:
            os.execvp(self.words[0], self.words)
        except OSError as error:
            text = "'{}': {}\n".format(self.words[0], error.strerror)
            sys.stderr.write(text)
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def die(number: int) -> None:
    """End by a signal, without a core file of this process."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    Launcher(sys.argv[1], sys.argv[2:]).run()
