"""Running of a local process whose output, errors and end are one result."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from runspec_jobs.provider import Conflict, Unavailable

LOST = 255  # the exit code of ssh if it failed itself, and not the command: ssh(1), EXIT STATUS
MESSAGE_BYTES = 1 << 16  # the most that is kept of what a command prints as errors


class Done(NamedTuple):
    """A command that has ended. *lost* means that it is unknown whether the command ran; *err* says why."""

    code: int
    out: bytes
    err: str
    lost: bool = False


def run_process(argv: Sequence[str], content: Iterable[bytes] | None, timeout_s: float) -> Done:
    """Run *argv* with *content* as its standard input.

    Standard error is a file, because a connection that ssh leaves open could keep a pipe open.
    """
    with tempfile.TemporaryFile() as err, started(argv, err, content is not None) as process:
        feeder = None if content is None else _Feeder(process, content)
        with ended_after(process, timeout_s) as late:
            assert process.stdout is not None, "BUG: stdout is a pipe"
            out = process.stdout.read()
            code = process.wait()
        if feeder is not None:
            feeder.join()
        err.seek(0)
        said = err.read(MESSAGE_BYTES).decode(errors="replace").strip()
    if late.is_set():
        return Done(code, out, f"no answer in {timeout_s:.0f} s", lost=True)
    if code < 0:
        return Done(code, out, said or f"killed by signal {-code}", lost=True)
    return Done(code, out, said)


@contextlib.contextmanager
def started(argv: Sequence[str], err: IO[bytes], fed: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Start *argv* in a process group of its own, so that all its processes can be killed."""
    stdin = subprocess.PIPE if fed else subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=err,
            cwd="/",  # so that no file beside a job file configures the command
            start_new_session=True,
        )
    except OSError as exc:
        raise Unavailable(f"{argv[0]}: {(exc.strerror or str(exc)).lower()}") from exc
    try:
        yield process
    finally:
        end(process)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


@contextlib.contextmanager
def ended_after(process: subprocess.Popen[bytes], timeout_s: float) -> Iterator[threading.Event]:
    """Kill *process* after *timeout_s*; the event is set if that happened."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        end(process)

    timer = threading.Timer(timeout_s, stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its children, if it has not ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class _Feeder(threading.Thread):
    """Writes to a command while another thread reads from it."""

    def __init__(self, process: subprocess.Popen[bytes], content: Iterable[bytes]) -> None:
        super().__init__(daemon=True)
        self._process, self._content = process, content
        self._failed: BaseException | None = None
        self.start()

    def run(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None, "BUG: stdin is a pipe"
        try:
            for block in self._content:
                stdin.write(block)
            stdin.close()
        except BrokenPipeError:  # the command has ended, and its exit code says why
            pass
        except BaseException as exc:  # noqa: BLE001 - this is a thread; join raises it in the caller
            self._failed = exc
            end(self._process)

    def join(self, timeout: float | None = None) -> None:
        super().join(timeout)
        if isinstance(self._failed, OSError):
            raise Conflict(f"cannot read the data to send: {self._failed}") from self._failed
        if self._failed is not None:
            raise self._failed
