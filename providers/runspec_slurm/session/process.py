"""Running of a local process whose output, errors and end are one result."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from runspec_agent.base.light_typing import NamedTuple
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
                # A broken pipe: the command has ended without reading all of its input.
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


# The environment of Slurm's commands, without the caller's own settings for Slurm.


# A plan is carried out exactly, so the caller's variables must not change it: sbatch(1), INPUT ENVIRONMENT VARIABLES.
# The PATH of a shell without a login does not contain the folder in which ParallelCluster has Slurm.
CLEAN = """\
case $(export -p) in
*SLURM_[!CJ]*|*SLURM_J[!W]*|*SLURM_C[!LO]*|*SLURM_CO[!N]*|*SLURM_CLUSTER_*|*SBATCH_*|*SQUEUE_*|*SCANCEL_*|*SACCT_*|\
*SINFO_*|*SCONTROL_*|*SALLOC_*|*SRUN_*)
for v in $(env | sed -n 's/^\\(S[A-Z]*_[A-Za-z0-9_]*\\)=.*/\\1/p'); do
case $v in
SLURM_CONF|SLURM_CONF_SERVER|SLURM_JWT|SLURM_CLUSTERS) ;;
SLURM_*|SBATCH_*|SQUEUE_*|SCANCEL_*|SACCT_*|SINFO_*|SCONTROL_*|SALLOC_*|SRUN_*) unset "$v" ;;
esac
done ;;
esac
command -v squeue >/dev/null 2>&1 || PATH=$PATH:/opt/slurm/bin:/usr/local/slurm/bin:/usr/local/bin
export PATH LC_ALL=C SLURM_TIME_FORMAT=%s SLURM_BITSTR_LEN=0
"""


# Quoting of text in a batch script.
#
# sbatch reads the script before any shell does. It refuses a script with a carriage return before the end of a
# line, and looks for options of its own and of other schedulers (#SBATCH, #BSUB) at the beginning of lines, even
# inside quotes (measured with 22.05). So values contain no newline and no carriage return: variables replace them.


HERE = "$SLURM_SUBMIT_DIR"  # the workspace, where sbatch is called
# Names that begin with runspec, in any case, are reserved: no spec has such a variable.
ENDS = {"\n": '"$runspec_nl"', "\r": '"$runspec_cr"'}
MEANT = {'"$runspec_nl"': "runspec_nl='\n'", '"$runspec_cr"': "runspec_cr=\"$(printf '\\r')\""}


def quoted(text: str) -> str:
    """Return *text* as one word of the script, on one line.

    >>> quoted("a b"), quoted("nvcr.io#x"), quoted("1\\r\\n2")
    ("'a b'", "'nvcr.io#x'", '1"$runspec_cr""$runspec_nl"2')
    """
    parts = [part for part in re.split(r"([\r\n])", text) if part]
    return "".join(ENDS.get(part) or shlex.quote(part) for part in parts) or "''"


def placed(path: str) -> str:
    """Return the path of a file of runspec in the workspace, as a word of the script.

    >>> placed("runs/a/claim")
    '"$SLURM_SUBMIT_DIR/runs/a/claim"'
    """
    assert re.fullmatch(r"[A-Za-z0-9._/-]+", path), "BUG: runspec's own paths are plain"
    return f'"{HERE}/{path}"'


def ends(lines: Iterable[str]) -> Iterator[str]:
    """Return the assignments of the variables that *lines* use.

    >>> list(ends(["export A=1"])), len(list(ends([quoted("a\\rb")])))
    ([], 1)
    """
    text = "\n".join(lines)
    return (made for word, made in MEANT.items() if word in text)


# Messages of ssh about a command that it did not start.


# Whole lines that ssh prints if the command certainly did not begin, and hints. Other lines may come from the login's
# own files, after which the command may have begun.
NEVER_BEGUN = tuple(
    (re.compile(said), way)
    for said, way in (
        (
            r"(\S+: )?Permission denied \([a-z0-9,-]+\)\.",
            "log in by hand once, and check that the key exists and that ssh-agent has it",
        ),
        (r"Host key verification failed\.", "log in by hand once, and verify the key of the host"),
        (
            r"@\s+WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\s+@",
            "the key of the host has changed: ask its administrators",
        ),
        (
            r"ssh: Could not resolve hostname .*",
            "check option host of the profile",
        ),
        (
            r"ssh: connect to host .*",
            "check that the host is up and that this machine may reach it, or repeat the command later",
        ),
        (
            r"Connection closed by UNKNOWN port \d+",
            "check that the jump host accepts your connection",
        ),
        (r"command-line:? line \d+: .*", "correct ssh_options in the profile"),
        (r"\S+: terminating, \d+ bad configuration options", "correct ~/.ssh/config"),
        (r"unknown option -- .*", "correct ssh_options in the profile"),
        (
            r"Received disconnect from .*: Too many authentication failures",
            "let ssh offer only the configured key: set ssh_options: [IdentitiesOnly=yes]",
        ),
    )
)


def never_begun(err: str) -> str:
    """Return a hint if *err* says that the command certainly did not begin, or else an empty text."""
    lines = [line.strip() for line in err.splitlines()]
    return next((hint for said, hint in NEVER_BEGUN if any(map(said.fullmatch, lines))), "")
