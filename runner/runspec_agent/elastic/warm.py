"""Keep a process on this node that has imported the program's frameworks, from which workers are forked.

The first worker of a node is an ordinary process, whose imports are observed. From then on, `warm_hook` waits with
the same imports, and `warm_launcher` starts each worker as a fork of it. Where it cannot fork, and for programs that
are not Python, each worker is a new process as before.
"""

import os
import sys
import time
from typing import List, Mapping, Optional, Sequence

from runspec_agent.base import files, process
from runspec_agent.base.process import Child
from runspec_agent.elastic import warm_hook, warm_launcher
from runspec_agent.elastic.warm_hook import CHANGED, FORKS, IMPORTED, NAMES, SETTING

QUIET_S = 8.0  # since the last import of a framework, until the program is thought to have them all
FLAGS = "bBdOqsuvx"  # options of Python that change nothing here


def is_python(words: Sequence[str], path: Optional[str]) -> bool:
    """Return whether *words* start a Python program directly, in a Python that reads PYTHONPATH."""
    program = _which(words[0], path) if words else None
    if program is None:
        return False
    if not _is_interpreter(program):
        return _is_script(program, path)
    for word in words[1:]:
        if word in ("-m", "-c") or not word.startswith("-"):
            return True
        with_value = word.startswith(("-W", "-X")) and len(word) > 2
        if not (with_value or set(word[1:]) <= set(FLAGS)):
            return False
    return False


def _is_script(program: str, path: Optional[str]) -> bool:
    """Return whether *program* is a script for Python, without options for Python."""
    with open(program, "rb") as stream:
        first = os.fsdecode(stream.readline(256)).split()
    if not first or not first[0].startswith("#!"):
        return False
    first[0] = first[0][2:]
    first = [word for word in first if word]
    if len(first) == 2 and os.path.basename(first[0]) == "env":
        first = [_which(first[1], path) or ""]
    return len(first) == 1 and _is_interpreter(first[0])


def _is_interpreter(path: str) -> bool:
    real = os.path.realpath(path)
    try:
        with open(real, "rb") as stream:
            compiled = (
                stream.read(4) == b"\x7fELF"
            )  # and no shell script that could change PYTHONPATH
    except OSError:
        return False
    return compiled and os.path.basename(real).startswith("python")


def _which(name: str, path: Optional[str]) -> Optional[str]:
    folders = [""] if "/" in name else (path or os.defpath).split(os.pathsep)
    found = (os.path.join(folder, name) for folder in folders)
    return next((one for one in found if os.path.isfile(one) and os.access(one, os.X_OK)), None)


class Warm:
    """The process that workers are forked from, if the program is one that can be forked.

    *argv* starts the program through *start*, a shell with a script that replaces references in the words.
    """

    def __init__(self, folder: str, start: List[str], argv: List[str], cwd: Optional[str]) -> None:
        self.folder, self.start_words, self.argv, self.cwd = folder, start, argv, cwd
        self.child: Optional[Child] = None
        self._observed = False
        self._changed, self._since = -1, 0.0
        os.mkdir(folder, 0o700)
        for module, name in ((warm_hook, "sitecustomize.py"), (warm_launcher, "launcher.py")):
            source = module.__loader__.get_data(module.__file__)  # type: ignore[union-attr] # as every importer of the agent has
            files.write(os.path.join(folder, name), source)

    def words(self) -> List[str]:
        """Return the command that starts a worker."""
        launcher = os.path.join(self.folder, "launcher.py")
        return [sys.executable, "-IS", launcher, self.folder, *self.argv]

    def observed(self) -> List[str]:
        """Return, once, the frameworks that the program imports, when it seems to have imported them all."""
        path = os.path.join(self.folder, IMPORTED)
        if self.child is not None or self._observed:
            return []
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return []
        now = time.monotonic()
        if found.st_mtime_ns != self._changed:
            self._changed, self._since = found.st_mtime_ns, now
        if not found.st_size or now - self._since < QUIET_S:
            return []
        self._observed = True
        names = [*(files.read(path) or b"").decode("utf-8", "replace").split(), CHANGED]
        return names[: names.index(CHANGED)]

    def start(self, names: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the process with the imports *names*; *env* is that of a worker, but for what differs among them."""
        if self.child is not None or not names:
            return
        files.write(os.path.join(self.folder, NAMES), "\n".join(names).encode("utf-8"))
        files.write(os.path.join(self.folder, IMPORTED), b"")  # nothing has to be observed
        files.remove(os.path.join(self.folder, FORKS))
        own = dict(env)
        own[SETTING] = "serve"
        own["PYTHONPATH"] = os.pathsep.join([self.folder, *filter(None, [env.get("PYTHONPATH")])])
        self.child = Child([*self.start_words, *self.argv], own, self.cwd)

    def is_ready(self) -> bool:
        """Return whether a fork can be had now, or will never be."""
        if self.child is None:
            return True
        process.reap((self.child,))
        return self.child.code is not None or os.path.exists(os.path.join(self.folder, FORKS))

    @property
    def pid(self) -> int:
        return 0 if self.child is None else self.child.pid
