"""A login shell on a login node that runs the commands of this process one after the other.

A login may take seconds, such as one whose ~/.bashrc activates conda, so commands do not log in one by one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

from runspec_slurm.session.process import (
    LOST,
    MESSAGE_BYTES,
    Done,
    ended_after,
    never_begun,
    started,
)
from runspec_slurm.timing import Timing

# Argument: a random key, which is printed when the shell is ready. Standard input: one request on each line: the key,
# a mark, a command and its standard input, the last two with escapes of printf. A line that is cut off is not run, and
# neither is one without the key, should a program of the login have read a part of standard input. A printf that is no
# builtin would show a secret in its arguments. The answer is the mark, the output, the mark, the exit code, the errors
# and the mark; no command knows its mark, so no output can contain it.
LOOP = """\
unset key mark line content err code
[ "$(command -v printf)" = printf ] || exit 0
printf '%s\\n' "$1"
while read -r key mark line content && [ "$key" = "$1" ]; do
printf '%s\\n' "$mark" || exit
{ err=$(printf %b "$content" | (eval "$(printf %b "$line")") 2>&1 >&3 3>&-); code=$?; } 3>&1
printf '%s %s\\n%s\\n%s.\\n' "$mark" "$code" "$err" "$mark"
done
"""
# A shell reads a request byte by byte, for about 1 microsecond each. A command logs in by itself if that, or the wait
# for a shell in use, would take longer than the login of the shell took.
MOST_BYTES, BYTES_A_SECOND = 128 << 10, 500_000
SIGNALS = range(129, 160)  # exit codes of commands that a signal has killed


class SharedShell:
    """Runs commands in one shell, which is opened for the first of them and again after it has ended.

    *argv* is the command line of ssh that starts LOOP with a key as its argument.
    """

    def __init__(self, argv: Callable[[str], Sequence[str]], timing: Timing) -> None:
        self._argv, self.timing = argv, timing
        self._lock = threading.Lock()
        self._held = contextlib.ExitStack()
        self.process: subprocess.Popen[bytes] | None = None
        self._err: IO[bytes]  # of the process
        self._key = ""
        self._retry_at = 0.0
        self._login_s = timing.quick_login_s

    def run(self, line: str, content: bytes, timeout_s: float) -> Done | None:
        """Run a line of shell; return None if it certainly did not begin and has to log in by itself.

        That is the case if another thread uses the shell, if the request is large, or if no shell can be held.
        """
        limit = min(int(self._login_s * BYTES_A_SECOND), MOST_BYTES)
        if len(line) + len(content) > limit or time.monotonic() < self._retry_at:
            return None
        request = b" ".join((escape(os.fsencode(line)), escape(content)))
        if len(request) > limit or not self._lock.acquire(timeout=min(self._login_s, timeout_s)):
            return None
        try:
            return self._run(request, timeout_s)
        except BaseException:
            # Also Ctrl-C: what the shell still answers would be taken for the next answer.
            self._held.close()
            raise
        finally:
            self._lock.release()

    def give_up(self) -> bool:
        """Hold no shell for some time, since it may keep others from logging in; return whether there was one."""
        there = self.close()
        if there:
            self._retry_at = time.monotonic() + self.timing.alone_s
        return there

    def close(self) -> bool:
        """End the shell, unless a command uses it; return whether there was one. The next command opens another."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            process = self.process
            if process is None or process.poll() is not None:
                return False
            assert process.stdin is not None, "BUG: stdin is a pipe"
            # A shell that does not end in time is killed below.
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.stdin.close()
                process.wait(self.timing.shell_exit_s)
            return True
        finally:
            self._held.close()
            self._lock.release()

    def _run(self, request: bytes, timeout_s: float) -> Done | None:
        """Send a request to the shell; if that has just ended by itself without reading it, to another."""
        held = self.process
        if held is not None and held.poll() is None:
            done = self._exchange(held, request, timeout_s)
            if done is not None:
                return done
        new = self._open(min(self.timing.login_s, timeout_s / 2))
        done = self._exchange(new, request, timeout_s) if isinstance(new, subprocess.Popen) else new
        if done is None:
            self._retry_at = time.monotonic() + self.timing.alone_s
        return done

    def _open(self, limit_s: float) -> subprocess.Popen[bytes] | Done | None:
        """Return a shell that is ready; or else how ssh failed, if no other login would succeed, or None."""
        self._held.close()
        began = time.monotonic()
        self._key = secrets.token_hex(16)
        self._err = self._held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        self.process = process = self._held.enter_context(
            started(self._argv(self._key), self._err, fed=True)
        )
        with ended_after(process, limit_s) as late:
            if _read_until(process, f"{self._key}\n".encode())[0]:
                self._login_s = max(time.monotonic() - began, self.timing.quick_login_s)
                return process
            code = process.wait()
        said = self._read_errors(0)
        self._held.close()
        refused = code == LOST and not late.is_set() and never_begun(said)
        return Done(code, b"", said) if refused else None

    def _exchange(
        self, process: subprocess.Popen[bytes], request: bytes, timeout_s: float
    ) -> Done | None:
        """Return how a command ended; None if the shell has ended and certainly did not begin the command."""
        assert process.stdin is not None, "BUG: stdin is a pipe"
        mark, before = secrets.token_hex(16).encode(), os.fstat(self._err.fileno()).st_size
        with ended_after(process, timeout_s) as late:
            with contextlib.suppress(OSError):  # the shell has ended: there is no answer
                process.stdin.write(b"%s %s %s\n" % (self._key.encode(), mark, request))
                process.stdin.flush()
            whole, answer = _read_until(process, mark + b".\n")
            if whole:
                return read_answer(answer, mark)
            code = process.wait()
        said = self._read_errors(before)
        self._held.close()
        _, begun, out = answer.partition(mark + b"\n")
        if late.is_set():
            return Done(code, out, f"no answer in {timeout_s:.0f} s", lost=True)
        if not begun and 0 <= code != LOST:
            return None
        return Done(LOST, out, said, lost=True)

    def _read_errors(self, start: int) -> str:
        self._err.seek(start)
        return self._err.read(MESSAGE_BYTES).decode(errors="replace").strip()


def escape(data: bytes) -> bytes:
    """Return *data* as one word for printf's %b.

    >>> escape(b"a b")
    b'a\\\\0040b'
    """
    return re.sub(rb"[^!-\[\]-~]", lambda found: b"\\0%03o" % found[0][0], data)


def _read_until(process: subprocess.Popen[bytes], last: bytes) -> tuple[bool, bytes]:
    """Read what a shell prints until it prints *last*; return whether it did."""
    assert process.stdout is not None, "BUG: stdout is a pipe"
    blocks, tail = list[bytes](), b""
    while tail != last:
        data = os.read(process.stdout.fileno(), 1 << 16)
        if not data:
            return False, b"".join(blocks)
        blocks.append(data)
        tail = (tail + data)[-len(last) :]
    return True, b"".join(blocks)


def read_answer(answer: bytes, mark: bytes) -> Done:
    """Return the end of a command. As with ssh itself, a signal that killed it leaves the outcome unknown."""
    start, last = answer.index(mark) + len(mark) + 1, len(answer) - len(mark) - 2
    between = answer.rindex(mark, start, last)
    out = answer[start:between]
    number, _, said = answer[between + len(mark) : last].partition(b"\n")
    code, err = int(number), said[:MESSAGE_BYTES].decode(errors="replace").strip()
    if code in SIGNALS:
        return Done(LOST, out, err or f"killed by signal {code - 128}", lost=True)
    return Done(code, out, err)


_SHELLS: dict[tuple[str, ...], SharedShell] = {}


def shared_shell(argv: Sequence[str], command: Callable[[str], str], timing: Timing) -> SharedShell:
    """Return the shell of this process for *argv*, ssh up to the host; *command* returns the line that starts LOOP."""
    new = SharedShell(lambda key: [*argv, command(key)], timing)
    return _SHELLS.setdefault(tuple(argv), new)


@atexit.register
def close_shells() -> None:
    """End all shells of this process that are idle."""
    for shell in list(_SHELLS.values()):
        shell.close()
