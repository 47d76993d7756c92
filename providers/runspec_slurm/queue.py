"""What Slurm's commands are asked, and what their text says: its JSON has changed between versions too often."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runspec_jobs.provider import NoAnswer, RemoteError, Unavailable
from runspec_slurm.session.clean_environment import CLEAN
from runspec_slurm.session.transport import Done
from runspec_slurm.store.workspace import CHANGED, WorkspaceStore, part_name

NO_COMMAND = 127
# https://slurm.schedmd.com/job_state_codes.html
ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT".split()
)
# run, the name of a claim until it is one, the digest of the script, and then the words for sbatch. Of a caller that
# dies meanwhile only half of the script comes, which sbatch would take. Who submitted claims the run for the job, so
# that of two that were submitted the other one leaves; this ends the job itself where it comes too late. A site's own
# sbatch may print more than the id, and what is no id must never stand in a claim: no job would have the run. A job has
# the umask of who submits it, so that is the login's again: https://slurm.schedmd.com/sbatch.html (SLURM_UMASK)
# sbatch ends with 255 where it does not take its own words, before it asks anybody; so does ssh when nobody knows.
SUBMIT = f"""\
r=runs/$1 t=runs/$1/$2 d=$3; shift 3
gone() {{ echo "error: its run was destroyed meanwhile" >&2; exit 1; }}
[ -d "$r" ] || gone
cat >"$t" && found=$(sha256sum <"$t") || {{ rm -f -- "$t"; exit 1; }}
[ "${{found%% *}}" = "$d" ] || {{ rm -f -- "$t"; exit {CHANGED}; }}
out=$(umask "$u"; sbatch "$@" <"$t") || {{ code=$?; rm -f -- "$t"; [ $code -lt 255 ] || code=1; exit $code; }}
id=$(printf '%s\\n' "$out" | sed -n 's/^\\([0-9][0-9]*\\)\\(;.*\\)\\{{0,1\\}}$/\\1/p' | tail -n 1)
[ -n "$id" ] || {{ rm -f -- "$t"; exit 0; }}
[ -d "$r" ] || {{ scancel "$id"; gone; }}
printf %s "$id" >"$t" && ln -- "$t" "$r/claim" 2>/dev/null
rm -f -- "$t"
holder=$(cat -- "$r/claim" 2>/dev/null)
[ "$holder" != "$id" ] || ln -- "$r/claim" "$r/job" 2>/dev/null
[ -z "$holder" ] || [ "$holder" = "$id" ] || scancel "$id"
printf '%s %s\\n' "$id" "$holder"
"""
SUBMITTED = re.compile(rb"(\d+) (.*)\n")
KILLED = 128  # what a shell ends with whose command was ended by a signal is more than this
# Reasons, folders and names are free text, in which "|" may stand; this character nobody types. exit_code is what
# wait(2) gave. A name may have the end of a line in it, so it comes last.
BETWEEN = "\x1f"
FIELDS = (
    "ArrayJobID ArrayTaskID State Reason exit_code RestartCnt SubmitTime StartTime EndTime NodeList WorkDir Name"
).split()
FORMAT = ",".join(f"{name}:{BETWEEN}" for name in FIELDS)
OF_NAME = 'pwd -P; squeue --noheader --states=all --user="$(id -u)" --name="$1" -O "$2"'
OF_JOB = 'squeue --noheader --states=all --jobs="$1" -O "$2"'
ALL = 'squeue --noheader --states=all --user="$(id -u)" -O "$1"'
CANCEL = 'scancel -- "$@"'
# Without --batch, all processes of a job hear it at once, and KillWait later they are killed.
TELL = 'scancel --batch --signal=TERM -- "$@"'
CANCEL_WAITING = 'scancel --state=PENDING -- "$@"'
ACCOUNT = (
    'sacct --noheader --parsable2 --delimiter="$2" --allocations --duplicates --jobs="$1" '
    "--format=JobID,State,ExitCode,Start,End,Submit,WorkDir,JobName"
)
ACCOUNTS = "sacct --noheader --allocations --starttime=now --format=JobID >/dev/null"

# What Slurm says when nobody knows whether it was done. They are its errors of communication:
# https://github.com/SchedMD/slurm/blob/slurm-22-05-8-1/src/common/slurm_errno.c
UNSURE = (
    "Socket timed out",
    "Unable to contact slurm controller",
    "Communication connection failure",
    "Communication shutdown failure",
    "Message send failure",
    "Message receive failure",
    "Zero Bytes were transmitted or received",
    "Unexpected message received",
    "Transport endpoint is not connected",
    "Connection reset",
    "Broken pipe",
    "Connection timed out",
)
# What passes by itself: nothing was made, and the same call may be made again.
PASSES = (
    "temporarily unable to accept job",
    "Resource temporarily unavailable",
    "in standby mode",
    "rate limit",
)
NO_JOB = ("Invalid job id specified",)
OVER = (*NO_JOB, "Job/step already completing or completed")
# scancel ends with the number of Slurm's error (ESLURM_ALREADY_DONE, 2021), of which a shell sees eight bits, and keeps
# the words of this one to itself: https://github.com/SchedMD/slurm/blob/slurm-22-05-8-1/src/scancel/scancel.c
OVER_CODE = 2021 % 256
# What to do about a refusal; the words are Slurm's.
WAYS = (
    ("Invalid partition name", "name another in the profile: partition (sinfo -s lists them)"),
    ("Invalid account", "name the account that you may use: option account"),
    ("Invalid qos", "name a QOS that you may use: option qos"),
    ("configuration is not available", "no node of the partition has so much: ask for less in cluster"),
    ("More processors requested than permitted", "ask for fewer cpus or nodes in cluster"),
    ("Node count specification invalid", "the partition has not so many nodes: set cluster.nodes"),
    ("Requested time limit is invalid", "the partition's limit is shorter: lower timeout"),
    ("time limit", "the partition's limit is shorter: lower timeout"),
    ("Invalid job array specification", "MaxArraySize is smaller: make the sweep smaller"),
    ("Job violates accounting/QOS policy", "wait for jobs of yours to end, or name another qos"),
    ("Memory specification can not be satisfied", "no node has so much: lower cluster.memory"),
    ("Invalid generic resource", "the partition has no such GPUs, or others: see gpus, options gpu_types and gres"),
    ("User's group not permitted", "name another partition: this one is not for you"),
    ("Access/permission denied", "ask whoever runs the cluster whether you may"),
    ("authentication", "is munge running there, and do the clocks agree? see runspec doctor slurm"),
)  # fmt: skip


class Row(NamedTuple):
    """What squeue says of a job, or of some tasks of an array that are alike so far."""

    job: str
    tasks: tuple[int, ...]  # (0,) for what is no array
    state: str
    reason: str
    code: int | None  # what a shell would say: 128 + the signal
    restarts: int
    began_s: float | None
    ended_s: float | None
    nodes: str
    folder: str  # in which it was submitted
    name: str
    submitted_s: float | None = None  # of a job that was queued again, when that was


class Past(NamedTuple):
    """What the accounting says of one try of a task."""

    task: int
    state: str
    code: int | None
    began_s: float | None
    ended_s: float | None
    folder: str = ""
    name: str = ""
    submitted_s: float | None = None
    restarts: int = 0  # by the order in which its tries are told


class Queue:
    """Slurm's commands where the workspace is. Each method is one command, and one call of the controller."""

    def __init__(self, shelf: WorkspaceStore) -> None:
        self.shelf = shelf
        self._accounting = True  # until it says that there is none

    def submit(self, run: str, argv: Sequence[str], script: str) -> tuple[str, str]:
        """Submit a job; give its id, and that of the job which has the run."""
        text = script.encode()
        digest = hashlib.sha256(text).hexdigest()
        args = [self.shelf.workspace, run, part_name(), digest, *argv]
        found = self._changed("sbatch", SUBMIT, args, text)
        match = SUBMITTED.fullmatch(found)
        if match is None:
            raise NoAnswer(f"{self.shelf.way.where}: sbatch: it gave no job id")
        return match[1].decode(), match[2].decode()

    def of_name(self, run: str) -> list[Row]:
        """Return the jobs of this user whose name is *run*; those that have ended, where they are of this workspace.

        Another workspace may have had a run of that name.
        """
        here, _, found = self._looked("squeue", OF_NAME, run, FORMAT).partition("\n")
        named = [row for row in rows(found) if row.name == run]
        return [row for row in named if row.folder == here or row.state not in ENDED]

    def of_job(self, job: str) -> list[Row]:
        """Return what is known of *job*; nothing once the controller has forgotten it."""
        return list(rows(self._looked("squeue", OF_JOB, job, FORMAT)))

    def all(self) -> list[Row]:
        """Return all jobs of this user."""
        return list(rows(self._looked("squeue", ALL, FORMAT)))

    def cancel(self, jobs: Sequence[str]) -> None:
        """End *jobs*; content where they have ended."""
        if jobs:
            self._changed("scancel", CANCEL, [self.shelf.workspace, *jobs])

    def cancel_waiting(self, job: str) -> None:
        """End the tasks of an array that have not begun."""
        self._changed("scancel", CANCEL_WAITING, [self.shelf.workspace, job])

    def tell(self, jobs: Sequence[str]) -> None:
        """Tell the batch scripts of *jobs* to end; they tell their programs, and save what those wrote."""
        if jobs:
            self._changed("scancel", TELL, [self.shelf.workspace, *jobs])

    def past(self, job: str) -> list[Past]:
        """Return what the accounting knows of *job*, the first try first; nothing where there is none."""
        if not self._accounting:
            return []
        done = self._run(ACCOUNT, [self.shelf.workspace, job, BETWEEN])
        self._accounting = done.code == 0
        return list(pasts(done.out.decode(errors="replace"))) if done.code == 0 else []

    def accounts(self) -> bool:
        """Return whether the accounting answers."""
        return self._run(ACCOUNTS, [self.shelf.workspace]).code == 0

    def _run(self, script: str, args: Sequence[str], content: bytes | None = None) -> Done:
        """Slurm's commands are run in the workspace: the paths in a plan are below it."""
        blocks = None if content is None else [content]
        return self.shelf.way.run(self.shelf.entered(CLEAN + script), args, blocks)

    def _looked(self, command: str, script: str, *args: str) -> str:
        done = self._run(script, [self.shelf.workspace, *args])
        if done.code and any(said in done.err for said in NO_JOB):
            return ""
        self._refuse(command, done)
        return done.out.decode(errors="replace")

    def _changed(
        self, command: str, script: str, args: Sequence[str], content: bytes | None = None
    ) -> bytes:
        try:
            done = self._run(script, args, content)
        except Unavailable as exc:
            raise RemoteError(exc.message, exc.hint, transient=True) from exc
        if command == "scancel" and _over(done):
            return b""
        self._refuse(command, done)
        return done.out

    def _refuse(self, command: str, done: Done) -> None:
        """Raise what *command* has said, if it did not end well."""
        if not done.code and not done.lost:
            return
        said = _said(done.err) or f"it ended with code {done.code}"
        what = f"{self.shelf.way.where}: {command}: {said}"
        if done.lost or done.code > KILLED or any(words in done.err for words in UNSURE):
            raise NoAnswer(what)
        if done.code == CHANGED:
            what = f"{self.shelf.way.where}: {command}: it arrived otherwise than it was sent"
            raise RemoteError(what, transient=True)
        if done.code == NO_COMMAND:
            hint = "is Slurm on this host? see runspec doctor slurm, and option host"
            raise RemoteError(f"{self.shelf.way.where} has no {command}", hint)
        if any(words in done.err for words in PASSES):
            raise RemoteError(what, transient=True)
        raise RemoteError(what, next((way for words, way in WAYS if words in done.err), None))


def rows(text: str) -> Iterator[Row]:
    """Read squeue's lines of FORMAT.

    >>> text = "7|4-5,9%2|PENDING|Priority|0|0|9|N/A|N/A||/w|job-a1|"
    >>> next(rows(text.replace("|", BETWEEN)))[1:4]
    ((4, 5, 9), 'PENDING', 'Priority')
    """
    for line in text.splitlines():
        words = line.split(BETWEEN, len(FIELDS) - 1)
        if len(words) == len(FIELDS):
            job, tasks, state, reason, code, restarts, sent, began, ended, nodes, folder, name = (
                words
            )
            status = int(code) if code.isdigit() else None
            yield Row(
                job.strip(),
                indices(tasks),
                state.strip().upper(),
                reason.strip(),
                None if status is None else shell_code(status),
                int(restarts) if restarts.isdigit() else 0,
                _seconds(began),
                _seconds(ended),
                nodes.strip(),
                folder.strip(),
                name.removesuffix(BETWEEN).rstrip(),
                _seconds(sent),
            )


def indices(text: str) -> tuple[int, ...]:
    """Read the tasks of an array as Slurm writes them.

    >>> indices("0-2,7,10-14:2%3"), indices("N/A")
    ((0, 1, 2, 7, 10, 12, 14), (0,))
    """
    found: list[int] = []
    for part in text.strip().strip("[]").partition("%")[0].split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if match is not None:
            first, last, step = match[1], match[2] or match[1], match[3] or "1"
            found += range(int(first), int(last) + 1, int(step))
    return tuple(found) or (0,)


def shell_code(status: int) -> int:
    """Return what a shell would say of what wait(2) gave.

    >>> shell_code(768), shell_code(9)
    (3, 137)
    """
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8


def pasts(text: str) -> Iterator[Past]:
    """Read sacct's lines: an exit code stands there as "code:signal", a state as "CANCELLED by 1000".

    >>> next(pasts("12_3|FAILED|0:9|1700000000|1700000005|1699999999|/w|job-a1".replace("|", BETWEEN)))[:3]
    (3, 'FAILED', 137)
    """
    tries = dict[int, int]()
    for line in text.splitlines():
        words = line.split(BETWEEN, 7)
        if len(words) == 8 and words[1].strip():
            job, state, code, began, ended, sent, folder, name = words
            own, _, signal = code.partition(":")
            number = 128 + int(signal) if signal.isdigit() and int(signal) else None
            if number is None and own.isdigit():
                number = int(own)
            for task in indices(job.partition("_")[2] or "N/A"):
                when = (_seconds(began), _seconds(ended))
                before = tries.get(task, 0)
                tries[task] = before + 1
                said = state.split()[0]
                yield Past(task, said, number, *when, folder, name, _seconds(sent), before)


def _seconds(text: str) -> float | None:
    return float(text) if text.strip().isdigit() else None


def _over(done: Done) -> bool:
    """Return whether scancel found nothing left to end."""
    silent = done.code == OVER_CODE and not done.err.strip() and not done.lost
    return silent or any(said in done.err for said in OVER)


def _said(err: str) -> str:
    """Return the line that says most, without the name of the command before it."""
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return re.sub(r"^\w+: error: ", "", (errors or lines or [""])[-1])
