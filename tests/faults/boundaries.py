"""Counts every step at which a process can die, and ends, stops or fails it at one of them.

Nothing in the product knows of this: calls are wrapped and the file system is watched at run time. What an audit
hook sees (open, rename, mkdir, unlink, ...) cannot go round it; writes and fsyncs are wrapped in `os`, and files that
Python opens for writing write through `os.write`. Standard library only: the supervisor of a run loads this as well.

A boundary is the moment *before* a step, the middle of each write, and the moment after each call of a client. The
moment after a step of the file system is the moment before the next one; `end` stands after the last. A client asked
again what it was asked since the journal's last line (state, find, settled, cancel) is polled: that counts once.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import json
import os
import re
import select
import signal
import sys
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

POLLED = ("state", "find", "settled", "cancel")
CALLS = ("call", "stage", "release", *POLLED)
THEN = ", then "  # between the labels of a step and of a later one
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# Audit events that are steps, with the places of their paths. https://docs.python.org/3/library/audit_events.html
AUDITED: dict[str, tuple[str, tuple[int, ...]]] = {
    "os.rename": ("rename", (0, 1)),
    "os.mkdir": ("mkdir", (0,)),
    "os.remove": ("unlink", (0,)),
    "os.rmdir": ("rmdir", (0,)),
    "os.truncate": ("truncate", (0,)),
    "os.link": ("link", (0, 1)),
    "os.symlink": ("symlink", (1,)),
    "os.chmod": ("chmod", (0,)),
}
DIR_FDS = {"os.rename": (2, 3), "os.mkdir": (2,), "os.remove": (1,), "os.rmdir": (1,)}
GROWING = ("open", "write", "mkdir", "symlink", "link")  # what a full disk refuses
CHANGING = (*GROWING, "rename", "unlink", "rmdir", "truncate", "chmod")  # and a read-only one

_write, _fsync, _kill, _open = os.write, os.fsync, os.kill, io.open
_select = select.select
_readlink, _fstat_path = os.readlink, "/proc/self/fd/{}"


def plain(path: str, world: str) -> str:
    """Give *path* without what differs from run to run.

    >>> plain("/w/home/runs/faults-a1b2c3/lock", "/w")
    'home/runs/RUN/lock'
    """
    path = path.removeprefix(world + "/")
    path = re.sub(r"pipe:\[\d+\]", "pipe", path)
    path = re.sub(r"-[0-9a-f]{8}(?=/|$)", "-*", path)
    path = re.sub(r"\b[0-9a-f]{32}\b(-\*)?", "DIGEST", path)
    return re.sub(r"\b(faults|other)-[0-9a-z]{6}\b", "RUN", path)


class Boundaries:
    """The steps of this process below the folder *world*, written to the file *trace* as they come.

    At step *at*, it does what *do* says: `kill` or `stop` itself, or fail with an error of `errno` from there on. *at*
    is a number, or the first step of that label; "ONE, then OTHER" is the first OTHER after the first ONE.
    """

    def __init__(
        self, world: str, trace: str, at: int | str | None = None, do: str = "kill"
    ) -> None:
        self.world = world
        self.at = at
        self.do = do
        self.count = 0
        self.asked: set[str] = set()  # of the client since the journal's last line
        self.muted = 0
        self.busy = False
        self.look: Callable[[], Any] | None = None  # what a trace keeps of the world at each step
        self._out = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def step(self, what: str, *paths: str, **more: Any) -> bool:
        """Count one boundary, and die there if it is the one. True when it is a write's half that is to be taken."""
        number = None
        if not self.muted:
            self.count += 1
            number = self.count
        label = " ".join([what, *(plain(path, self.world) for path in paths)])
        found = {"n": number, "label": label, "what": what, "paths": paths, **more}
        if self.look is not None:
            found["seen"] = self.look()
        _write(self._out, json.dumps(found).encode() + b"\n")
        if number is None:
            return False
        if isinstance(self.at, str) and self.at.partition(THEN)[0] == label:
            self.at = self.at.partition(THEN)[2] or number
        if not isinstance(self.at, int):
            return False
        if self.do == "kill" and number == self.at:
            return self._die(what)
        if self.do == "stop" and number == self.at:
            _kill(os.getpid(), signal.SIGSTOP)
        elif self.do not in ("kill", "stop") and number >= self.at:
            return self._fail(what, paths, more.get("fresh", True))
        return False

    def _die(self, what: str) -> bool:
        if what != "half":
            _kill(os.getpid(), signal.SIGKILL)
        return True

    def _fail(self, what: str, paths: tuple[str, ...], fresh: bool) -> bool:
        """Refuse what a disk in this state refuses: a full one takes nothing new, a read-only one no change."""
        number = getattr(errno, self.do)
        if not paths or not paths[0].startswith(self.world):
            return False
        if what in (CHANGING if number == errno.EROFS else GROWING) and fresh:
            raise OSError(number, os.strerror(number), *([] if what == "write" else paths[:1]))
        return what == "half"

    # The file system

    def install(self) -> None:
        """Watch this process from now on. There is no way back."""
        os.write, os.fsync = self.write, self.fsync
        io.open = builtins.open = self.open
        select.select = self.select
        sys.addaudithook(self._audit)

    def write(self, fd: int, data: Any) -> int:
        path = self._of(fd)
        if not self._ours(path):
            return _write(fd, data)
        view = memoryview(data).cast("B")
        line = bytes(view[:4096]).decode(errors="replace") if path.endswith("journal.jsonl") else ""
        self.step("write", path, bytes=len(view), line=line)
        if line and not self.muted:
            self.asked.clear()
        if len(view) > 1 and self.step("half", path):
            done = _write(fd, view[: len(view) // 2])
            if self.do == "kill":
                _kill(os.getpid(), signal.SIGKILL)
            return done
        return _write(fd, data)

    def fsync(self, fd: Any) -> None:
        path = self._of(fd)
        if self._ours(path):
            self.step("fsync", path)
        _fsync(fd)

    def select(self, *args: Any) -> Any:
        """Wait for another process: after all that was sent to it, before its answer."""
        self.step("await")
        return _select(*args)

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Open as `open` does, and write through `os.write`."""
        if not set(mode) & set("wax+"):
            return _open(file, mode, *args, **kwargs)
        named = ("buffering", "encoding", "errors", "newline", "closefd", "opener")
        given: Mapping[str, Any] = {**dict(zip(named, args, strict=False)), **kwargs}
        raw = _Raw(
            file,
            mode.replace("b", "").replace("t", ""),
            given.get("closefd", True),
            given.get("opener"),
        )
        if given.get("buffering", -1) == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return buffered
        texts = {key: given[key] for key in ("encoding", "errors", "newline") if key in given}
        return io.TextIOWrapper(buffered, **texts)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if self.busy:
            return
        if event not in AUDITED and event not in ("open", "subprocess.Popen", "os.kill"):
            return
        self.busy = True
        try:
            self._audited(event, args)
        finally:
            self.busy = False

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            self.step("spawn", str(args[0]).rsplit("/", 1)[-1])
        elif event == "os.kill" and args[0] != os.getpid():
            self.step("signal", signal.Signals(args[1]).name)
        elif event == "os.kill":
            return
        elif event == "open":
            path = (
                self._of(args[0])
                if isinstance(args[0], int)
                else os.path.abspath(os.fsdecode(args[0]))
            )
            if not isinstance(args[0], int) and (args[2] or 0) & WRITES and self._ours(path):
                self.step(
                    "open",
                    path,
                    fresh=self.do == "EROFS" or not os.path.exists(path),
                    cut=bool(args[2] & os.O_TRUNC),
                )
        else:
            what, places = AUDITED[event]
            fds = [args[place] for place in DIR_FDS.get(event, ())] or [-1] * len(places)
            paths = [self._path(args[place], fd) for place, fd in zip(places, fds, strict=False)]
            if all(self._ours(path) for path in paths):
                self.step(what, *paths)

    def _path(self, named: Any, folder: int) -> str:
        if isinstance(named, int):
            return self._of(named)
        below = "" if folder in (-1, None) else self._of(folder)
        return os.path.abspath(os.path.join(below, os.fsdecode(named)))

    def _of(self, fd: int) -> str:
        return _readlink(_fstat_path.format(fd))

    def _ours(self, path: str) -> bool:
        return f"{path}/".startswith((f"{self.world}/home/", "pipe:"))

    # The client

    def watch(self, client: type) -> None:
        """Count what *client* is asked, before and after."""
        for name in filter(partial(hasattr, client), CALLS):
            setattr(client, name, self._counted(name, getattr(client, name)))

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def counted(client: Any, asked: Any, *more: Any, **named: Any) -> Any:
            words = (
                f"{name} {getattr(asked, 'operation', None) or getattr(asked, 'id', '')}".strip()
            )
            polled = name in POLLED and words in self.asked
            self.asked.add(words)
            self.muted += polled
            try:
                self.step("call", words)
                answer = real(client, asked, *more, **named)
                self.step("called", words)
            finally:
                self.muted -= polled
            return answer

        return counted


class _Raw(io.FileIO):
    def write(self, data: Any) -> int:
        return os.write(self.fileno(), data)


def tree(folder: Path) -> dict[str, int]:
    """Give what lies below *folder*, each with a checksum of what it holds."""
    found = {}
    for at, folders, names in os.walk(folder):
        found.update(dict.fromkeys((os.path.join(at, name) for name in folders), 0))
        for path in (os.path.join(at, name) for name in names):
            try:
                with _open(path, "rb") as file:
                    found[path] = zlib.crc32(file.read())
            except OSError:
                continue  # a process that is not watched took it away
    return found
