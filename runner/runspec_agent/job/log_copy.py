"""`copy-log VERB [WORD...]`: do what VERB does in a fork, and copy its output to the file `RUNSPEC_LOG` as well.

For services that return only the newest part of a container's log, and none once the container is deleted. The agent
uploads the file: `transfer.log_uploader`. As the first process of the container, this one passes signals on, collects
orphans, and exits with the code of the fork.

The copy in the container's own output has additional lines, `record_formats.LOG_MARK`, at the beginning and after each
MARK_BYTES: a reader learns from them which bytes of the log the service has returned.
"""

import contextlib
import os
import select
import sys
import time
from typing import IO, Iterator, List, Optional, Tuple

from runspec_agent.base import file_lock, process
from runspec_agent.base.process import Signals
from runspec_agent.base.record_formats import LOG_MARK
from runspec_agent.job.fork import Forked
from runspec_agent.transfer.log_times import INDEX
from runspec_agent.transfer.log_uploader import where

BLOCK = 1 << 16
MARK_BYTES = 1 << 20
ASLEEP_S = 60.0  # at most between two looks; output and signals interrupt it
DRAIN_S = 1.0  # after the end of the fork, for a background process that holds the pipe


def main(argv: List[str]) -> int:
    read, write = os.pipe()
    with Signals() as signals, _opened(os.environ.get("RUNSPEC_LOG")) as file:
        child = Forked(signals, lambda: _work(argv, write, (read, file)))
        os.close(write)
        LogCopy(read, file, 1).run(child, signals)
    return child.exit_code


@contextlib.contextmanager
def _opened(path: Optional[str]) -> Iterator[Optional[IO[bytes]]]:
    """Open the file of the log; without one, the output is still copied to that of the container."""
    try:
        if not path:
            raise OSError("RUNSPEC_LOG is not set")
        os.makedirs(os.path.dirname(os.path.join(path, INDEX)), exist_ok=True)
        stream = open(where(path), "wb", buffering=0)  # noqa: SIM115 - closed below
    except OSError as error:
        print("runspec: the log cannot be copied to the store: {}".format(error), file=sys.stderr)
        os.environ.pop("RUNSPEC_LOG", None)
        yield None
        return
    with stream:
        yield stream


def _work(argv: List[str], write: int, others: Tuple[int, Optional[IO[bytes]]]) -> int:
    from runspec_agent.__main__ import main as run

    for stream in (1, 2):
        os.dup2(write, stream)
    os.close(write)
    os.close(others[0])
    if others[1] is not None:
        others[1].close()  # the lock of this file is the parent's
    sys.argv[1:] = argv
    return run()


class LogCopy:
    """Copies from the pipe *read* to *file* first, and then to the descriptor *out*."""

    def __init__(self, read: int, file: Optional[IO[bytes]], out: int) -> None:
        self.read, self.file, self.out = read, file, out
        self.size = 0  # bytes of the log so far
        self.marked = -MARK_BYTES  # where the last mark is
        self.pending = b""
        self.ended = False

    def run(self, child: Forked, signals: Signals) -> None:
        """Copy until *child* has ended and all that it has printed is written, and pass *signals* on to it."""
        self._mark()
        until: Optional[float] = None
        while child.code is None or self.pending or not self.ended:
            if child.code is not None and not self.pending:
                until = until or time.monotonic() + DRAIN_S
                if time.monotonic() > until:
                    return
            self._step(signals, ASLEEP_S if child.code is None else DRAIN_S / 10)
            for number in signals.wait(0):
                child.send(number)
            process.reap((child,))

    def _step(self, signals: Signals, seconds: float) -> None:
        """Read or write once, or wait. While the output takes nothing, nothing is read, so that the program waits."""
        reading = [signals.fileno()] + ([] if self.pending or self.ended else [self.read])
        ready, free, _ = select.select(reading, [self.out] if self.pending else [], [], seconds)
        if free:
            self._write()
        if self.read in ready:
            self._copy()

    def _write(self) -> None:
        try:
            # A pipe that select calls writable takes that many bytes without waiting.
            done = os.write(self.out, self.pending[: select.PIPE_BUF])
        except OSError:  # nobody reads the container's output any more
            done = len(self.pending)
        self.pending = self.pending[done:]

    def _copy(self) -> None:
        block = self._kept()
        cut = block.rfind(b"\n") + 1
        if cut and self.size + cut >= self.marked + MARK_BYTES:
            self._take(block[:cut])
            self._mark()
            block = block[cut:]
        self._take(block)

    def _take(self, block: bytes) -> None:
        self.pending += block
        self.size += len(block)

    def _mark(self) -> None:
        self.pending += LOG_MARK.format(self.size).encode("ascii")
        self.marked = self.size

    def _kept(self) -> bytes:
        """Return the next bytes, which the file has as well; none at the end.

        After an error, the file stays as it is: the beginning of the log.
        """
        if self.file is None:
            block = os.read(self.read, BLOCK)
            self.ended = not block
            return block
        with contextlib.suppress(OSError):  # the file system has no locks
            file_lock.take(self.file.fileno())
        block = rest = os.read(self.read, BLOCK)
        self.ended = not block
        try:
            while rest:
                rest = rest[self.file.write(rest) or 0 :]
        except OSError as error:
            text = "runspec: the log cannot be copied to the store any more: {}\n"
            block += text.format(error.strerror or error).encode("utf-8", "replace")
        with contextlib.suppress(OSError):
            file_lock.free(self.file.fileno())
        if rest:
            self.file = None
        return block
