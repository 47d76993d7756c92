"""Runs the command line at a terminal."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Sequence

RUNSPEC = [sys.executable, "-m", "runspec_jobs"]
WAIT_S = 90.0


class Terminal:
    """The command line, or another *program*, with a terminal of its own."""

    def __init__(
        self, *words: str, rows: int = 24, columns: int = 80, program: Sequence[str] = RUNSPEC
    ) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            size = struct.pack("4H", rows, columns, 0, 0)
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)  # before anything is drawn
            os.environ.pop("COLUMNS", None)
            os.environ.pop("LINES", None)
            os.execv(program[0], [*program, *words])
        self.seen = self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def until(self, text: str) -> None:
        """Wait until *text* has been shown since the last time."""
        end = time.monotonic() + WAIT_S
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.fd], [], [], 0.1)[0]:
                self._read()
        self.seen = self.seen.partition(text)[2]

    def code(self) -> int:
        """Return the exit code of the program after its end; *shown* has all that it has printed by then."""
        with contextlib.suppress(OSError):
            while self._read():
                pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        """Take what the program has printed; return False at the end, where Linux raises OSError."""
        data = os.read(self.fd, 4096)
        text = self._decoder.decode(data)
        self.seen += text
        self.shown += text
        return bool(data)
