"""Connections to a port of a node over any route that a provider offers; each has two streams of bytes."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from runspec_jobs.access.endpoints import (
    LEAVE_S,
    End,
    Program,
    Refused,
    Socket,
    end_process,
    get_last_line,
)
from runspec_jobs.provider.types import Address, Forward, Route, StdioProxy

CONNECT_S = 15.0
PAUSE_S = 0.02
# This shell ends the program when runspec ends, even if it is killed: the kernel closes the pipe that the shell reads.
KEEPER = """exec 3<&0
"$@" 3<&- </dev/null & program=$!
trap 'kill $program' TERM INT HUP
{ read -r _ <&3; kill $program; } 2>/dev/null & reader=$!
wait $program
kill $reader 2>/dev/null
"""


class PersistentForward:
    """A program that keeps running and forwards connections from a socket of this machine."""

    def __init__(self, forward: Forward) -> None:
        self.way = forward
        self._closing = False
        self._folder = tempfile.TemporaryDirectory(
            prefix="runspec-"
        )  # has mode 0700; the path of a socket has at most 107 bytes
        self._path, self._said = Path(self._folder.name, "s"), Path(self._folder.name, "said")
        argv = [word.replace("{socket}", str(self._path)) for word in forward.argv]
        with self._said.open("wb") as stderr:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, "sh", *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd="/",  # never in the folder of a job file, like every program that runspec starts
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def dial(self) -> Socket:
        """Connect, and retry for a while, because a program that was just started may not listen yet."""
        until = time.monotonic() + CONNECT_S
        while True:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(str(self._path))
                return Socket(sock)
            except (FileNotFoundError, ConnectionRefusedError) as exc:
                sock.close()
                if self._closing or self.ended or time.monotonic() > until:
                    raise OSError(
                        self._explain() or "the program that connects to the node does not answer"
                    ) from exc
            time.sleep(PAUSE_S)

    def _explain(self) -> str:
        try:
            return get_last_line(self._said.read_bytes())
        except FileNotFoundError:
            return ""

    def close(self) -> None:
        assert self._process.stdin, "BUG: it was asked for"
        self._closing = True
        self._process.stdin.close()  # the keeper then ends the program
        # `end_process` kills what does not end in time.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVE_S)
        end_process(self._process)
        self._folder.cleanup()


class Connector:
    """Makes connections over routes, which may change; `close` ends the programs that routes keep running."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: PersistentForward | None = None
        self._beginning: set[Program] = set()

    def dial(self, route: Route) -> End:
        """Connect over *route*. Raises Refused if no program listens at the port, and OSError if the route fails."""
        match route:
            case Address(host, port):
                try:
                    return Socket(socket.create_connection((host, port), timeout=CONNECT_S))
                except ConnectionRefusedError as exc:
                    raise Refused from exc
            case StdioProxy(argv):
                return self._start(Program(argv))
            case Forward():
                return self._keep(route).dial()

    def _start(self, program: Program) -> Program:
        self._beginning.add(program)
        try:
            program.begin()
        finally:
            self._beginning.discard(program)
        return program

    def _keep(self, forward: Forward) -> PersistentForward:
        with self._lock:
            if self._kept is None or self._kept.way != forward or self._kept.ended:
                self._let_go()
                self._kept = PersistentForward(forward)
            return self._kept

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def close(self) -> None:
        for program in list(self._beginning):
            program.cut()
        with self._lock:
            self._let_go()
