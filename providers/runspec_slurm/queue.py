"""Calls of Slurm's commands, and parsers of their text output: the JSON output differs too much between versions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import NoAnswer, RemoteError, Unavailable
from runspec_slurm.naming import run_of
from runspec_slurm.session.process import CLEAN, Done
from runspec_slurm.store.workspace import CHANGED, WorkspaceStore, part_name

NO_COMMAND = 127
# https://slurm.schedmd.com/job_state_codes.html
ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT".split()
)
# Arguments: the name of the job, the name of the claim while it is written, the digest of the script, and then the
# options of sbatch. A name with a dot is that of a later array of the run, which has a claim of its own. The digest
# is verified because only half of the script arrives from a caller that dies, and sbatch would accept it. This script
# claims the run for the job that it submits, so that of two submitted jobs one exits; a job that is too late to claim
# the run is cancelled here. A site's own sbatch may print more than the id, and only an id may be written to a claim,
# or no job would own the run. A job inherits the umask of sbatch, so the umask of the login is restored first:
# https://slurm.schedmd.com/sbatch.html (SLURM_UMASK) The name of the cluster is written last: see `lookup.ownership`.
# sbatch exits with 255 if it rejects its options, before any request; ssh exits with 255 if the outcome is unknown.
SUBMIT = f"""\
r=runs/${{1%%.*}} s=${{1#"${{1%%.*}}"}}
t=$r/$2 d=$3; shift 3
gone() {{ echo "error: its run was destroyed meanwhile" >&2; exit 1; }}
[ -d "$r" ] || gone
cat >"$t" && found=$(sha256sum <"$t") || {{ rm -f -- "$t"; exit 1; }}
[ "${{found%% *}}" = "$d" ] || {{ rm -f -- "$t"; exit {CHANGED}; }}
out=$(umask "$u"; sbatch "$@" <"$t") || {{ code=$?; rm -f -- "$t"; [ $code -lt 255 ] || code=1; exit $code; }}
id=$(printf '%s\\n' "$out" | sed -n 's/^\\([0-9][0-9]*\\)\\(;.*\\)\\{{0,1\\}}$/\\1/p' | tail -n 1)
[ -n "$id" ] || {{ rm -f -- "$t"; exit 0; }}
[ -d "$r" ] || {{ scancel "$id"; gone; }}
printf %s "$id" >"$t" && ln -- "$t" "$r/claim$s" 2>/dev/null
rm -f -- "$t"
holder=$(cat -- "$r/claim$s" 2>/dev/null)
[ "$holder" != "$id" ] || ln -- "$r/claim$s" "$r/job$s" 2>/dev/null
[ -z "$holder" ] || [ "$holder" = "$id" ] || scancel "$id"
name=$(scontrol show config 2>/dev/null | sed -n 's/^ClusterName *= *//p')
[ -z "$name" ] || [ -f "$r/cluster" ] || {{ printf %s "$name" >"$t" && mv -f -- "$t" "$r/cluster"; }} 2>/dev/null
printf '%s %s\\n' "$id" "$holder"
"""
SUBMITTED = re.compile(rb"(\d+) (.*)\n")
KILLED = 128  # a shell exits with more than this if a signal ended its command
# Reasons, folders and names are free text and may contain "|", but hardly this character. exit_code is a status of
# wait(2). The name is last because it may contain a newline.
MIB = 1 << 20
BETWEEN = "\x1f"
FIELDS = (
    "ArrayJobID ArrayTaskID State Reason exit_code RestartCnt SubmitTime StartTime EndTime NodeList WorkDir Name"
).split()
FORMAT = ",".join(f"{name}:{BETWEEN}" for name in FIELDS)
OF_NAME = 'pwd -P; squeue --noheader --states=all --user="$(id -u)" --name="$1" -O "$2"'
OF_JOB = 'squeue --noheader --states=all --jobs="$1" -O "$2"'
ALL = 'squeue --noheader --states=all --user="$(id -u)" -O "$1"'
CANCEL = 'scancel -- "$@"'
# Without --batch, all processes of a job would get the signal, and be killed after KillWait.
TERMINATE = 'scancel --batch --signal=TERM -- "$@"'
CANCEL_WAITING = 'scancel --state=PENDING -- "$@"'
# Arguments: the run, Slurm's id of the task, its state, its restarts, and the name and content of the record of its
# failure, if it has one; by which factor its memory grows for the next attempt, up to how many MiB, if it does.
# Requeues the task if it is still the same attempt that has ended, and the run still exists.
REQUEUE = """\
{ cd "runs/$1" && [ -f record.json ]; } 2>/dev/null || exit 0
shown="$(scontrol -o show job "$2") " || exit
case $shown in *" JobState=$3 "*) ;; *) exit 0 ;; esac
case $shown in *" Restarts=$4 "*) ;; *) exit 0 ;; esac
[ -z "$5" ] || { mkdir -p "${5%/*}" && printf %s "$6" >"$5"; } || exit
scontrol requeue "$2" && echo requeued || exit
[ "$7" ] || exit 0
had="${shown##* MinMemoryNode=}" had="${had%% *}"
case $had in *[!0-9MG]*) exit 0 ;; *G) had=$((${had%G} * 1024)) ;; *M) had="${had%M}" ;; *) exit 0 ;; esac
more=$((had * $7))
[ "$more" -le "$8" ] || more="$8"
[ "$more" -le "$had" ] || scontrol update "JobId=$2" "MinMemoryNode=$more" || :
"""
HOLD = 'scontrol hold "$@"'
LET_GO = 'scontrol release "$@"'
START_AGAIN = 'scontrol requeue "$@"'
ACCOUNT = (
    'sacct --noheader --parsable2 --delimiter="$2" --allocations --duplicates --jobs="$1" '
    "--format=JobID,State,ExitCode,Start,End,Submit,WorkDir,JobName"
)
CLUSTER = "found=$(scontrol show config) || exit; printf '%s' \"$found\" | sed -n 's/^ClusterName *= *//p'"
ACCOUNTS = "sacct --noheader --allocations --starttime=now --format=JobID >/dev/null"

# Messages of Slurm after which the outcome is unknown, which are its communication errors:
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
# Transient errors: nothing was made, and the same call may be repeated.
PASSES = (
    "temporarily unable to accept job",
    "Resource temporarily unavailable",
    "in standby mode",
    "rate limit",
)
NO_JOB = ("Invalid job id specified",)
NOT_WAITING = ("no longer pending", "already completing or completed")
OVER = (*NO_JOB, "Job/step already completing or completed")
# scancel exits with the number of Slurm's error (ESLURM_ALREADY_DONE, 2021), of which a shell sees eight bits, and
# prints no message for this one: https://github.com/SchedMD/slurm/blob/slurm-22-05-8-1/src/scancel/scancel.c
OVER_CODE = 2021 % 256
# A part of Slurm's message, and the hint for it.
WAYS = (
    ("Invalid partition name", "set partition in the profile to one that sinfo -s lists"),
    ("Invalid account", "set option account to one that you may use"),
    ("Invalid qos", "set option qos to one that you may use"),
    ("configuration is not available", "no node of the partition is large enough: ask for less in cluster"),
    ("More processors requested than permitted", "ask for fewer cpus or nodes in cluster"),
    ("Node count specification invalid", "the partition has too few nodes: lower cluster.nodes"),
    ("Requested time limit is invalid", "the time limit of the partition is shorter: lower timeout"),
    ("time limit", "the time limit of the partition is shorter: lower timeout"),
    ("Invalid job array specification", "MaxArraySize is smaller than planned: destroy the run, and apply again"),
    ("Job violates accounting/QOS policy", "repeat the command when some of your jobs have ended, or set option qos"),
    ("Memory specification can not be satisfied", "no node has enough memory: lower cluster.memory"),
    ("Invalid generic resource", "the partition has no such GPUs: check gpus and the options gpu_types and gres"),
    ("Invalid feature specification", "no node of the partition has it: change option constraint"),
    ("Invalid license specification", "the cluster has no such license: scontrol show licenses lists them"),
    ("Invalid node name specified", "the partition has no such node: change the options nodelist and exclude"),
    ("equested reservation", "set option reservation to one that you may use: scontrol show reservations"),
    ("User's group not permitted", "set partition to one that your group may use"),
    ("Access/permission denied", "ask the administrators of the cluster for permission"),
    ("authentication", "check that munge is running there and that the clocks agree: see runspec doctor slurm"),
)  # fmt: skip


class Row(NamedTuple):
    """A line of squeue: a job, or several tasks of an array that have the same state so far."""

    job: str
    tasks: tuple[int, ...]  # (0,) for a job that is not an array
    state: str
    reason: str
    code: int | None  # as in a shell: 128 + the signal
    restarts: int
    began_s: float | None
    ended_s: float | None
    nodes: str
    folder: str  # where sbatch was called
    name: str
    submitted_s: float | None = None  # of a requeued job, the time of the requeue
    offset: int = 0  # how much the numbers of its tasks in the run are greater than in the array

    def task_id(self, task: int) -> str:
        """Return Slurm's id of a task of an array. The id of an array alone would mean all of its tasks."""
        return f"{self.job}_{task - self.offset}"


class Past(NamedTuple):
    """An attempt of a task, as the accounting has it."""

    task: int
    state: str
    code: int | None
    began_s: float | None
    ended_s: float | None
    folder: str = ""
    name: str = ""
    submitted_s: float | None = None
    restarts: int = 0  # counted from the order in which the attempts are listed


class Queue:
    """Slurm's commands, called in the workspace. Each method is one command, and one request to the controller."""

    def __init__(self, store: WorkspaceStore) -> None:
        self.store = store
        self._accounting = True  # until sacct reports that there is none
        self._cluster: str | None = None

    def submit(self, name: str, argv: Sequence[str], script: str) -> tuple[str, str]:
        """Submit a job; return its id, and the id of the job that owns the run."""
        text = script.encode()
        digest = hashlib.sha256(text).hexdigest()
        args = [self.store.workspace, name, part_name(), digest, *argv]
        output = self._changed("sbatch", SUBMIT, args, text)
        match = SUBMITTED.fullmatch(output)
        if match is None:
            raise NoAnswer(f"{self.store.way.where}: sbatch printed no job id")
        return match[1].decode(), match[2].decode()

    def of_name(self, *names: str) -> list[Row]:
        """Return the jobs of this user with these names; jobs that have ended, only if they used this workspace.

        Another workspace may have had a run with the same name.
        """
        here, _, output = self._looked("squeue", OF_NAME, ",".join(names), FORMAT).partition("\n")
        named = [row for row in rows(output) if row.name in names]
        return [row for row in named if row.folder == here or row.state not in ENDED]

    def of_job(self, *jobs: str) -> list[Row]:
        """Return the rows of *jobs*, without those that the controller has removed."""
        return list(rows(self._looked("squeue", OF_JOB, ",".join(jobs), FORMAT)))

    def all(self) -> list[Row]:
        """Return all jobs of this user."""
        return list(rows(self._looked("squeue", ALL, FORMAT)))

    def of_run(self, run: str) -> list[Row]:
        """Return the jobs of this user that have not ended and are named like *run* or one of its arrays."""
        return [row for row in self.all() if run_of(row.name) == run and row.state not in ENDED]

    def cluster(self) -> str | None:
        """Return the name of the cluster, which is asked for once; None if the configuration has none."""
        if self._cluster is None:
            self._cluster = self._looked("scontrol", CLUSTER).strip() or None
        return self._cluster

    def cancel(self, jobs: Sequence[str]) -> None:
        """Cancel *jobs*; jobs that have ended already are no error."""
        if jobs:
            self._changed("scancel", CANCEL, [self.store.workspace, *jobs])

    def cancel_waiting(self, job: str) -> None:
        """Cancel the tasks of an array that have not begun."""
        self._changed("scancel", CANCEL_WAITING, [self.store.workspace, job])

    def terminate(self, jobs: Sequence[str]) -> None:
        """Send SIGTERM to the batch scripts of *jobs*, which stop their programs and save the outputs."""
        if jobs:
            self._changed("scancel", TERMINATE, [self.store.workspace, *jobs])

    def hold(self, jobs: Sequence[str]) -> None:
        """Have *jobs* that wait take no node until they are let go; those that have begun go on."""
        try:
            self._listed("scontrol", HOLD, jobs)
        except RemoteError as exc:
            if not any(words in exc.message for words in NOT_WAITING):
                raise

    def let_go(self, jobs: Sequence[str]) -> None:
        """Let *jobs* run that were held."""
        self._listed("scontrol", LET_GO, jobs)

    def start_again(self, jobs: Sequence[str]) -> None:
        """Requeue *jobs* that have ended."""
        self._listed("scontrol", START_AGAIN, jobs)

    def _listed(self, command: str, script: str, jobs: Sequence[str]) -> None:
        if jobs:
            self._changed(command, script, [self.store.workspace, *jobs])

    def requeue(
        self,
        run: str,
        row: Row,
        name: str,
        failure: str,
        content: str,
        growth: Mapping[str, int] | None,
    ) -> bool:
        """Requeue the task with Slurm's id *name*, which has ended; return False if it is no longer as *row* says.

        *failure* is the path of a record to write before, below the folder of *run*, and *content* what it contains.
        *growth* is the `memory` of a rule of `retry.on`, in bytes: if Slurm refuses that, the memory stays.
        """
        args = [self.store.workspace, run, name, row.state, str(row.restarts), failure, content]
        args += [str(growth["grow"]), str(-(-growth["most"] // MIB))] if growth else ["", ""]
        return self._changed("scontrol", REQUEUE, args).strip() == b"requeued"

    def past(self, job: str) -> list[Past]:
        """Return the attempts of *job* from the accounting, oldest first; an empty list if there is no accounting."""
        if not self._accounting:
            return []
        done = self._visited(ACCOUNT, [self.store.workspace, job, BETWEEN])
        self._accounting = done.code == 0
        return list(pasts(done.out.decode(errors="replace"))) if done.code == 0 else []

    def accounts(self) -> bool:
        """Return whether the accounting answers."""
        return self._visited(ACCOUNTS, [self.store.workspace]).code == 0

    def _visited(self, script: str, args: Sequence[str]) -> Done:
        """Run *script*, which changes nothing, in the workspace if it exists."""
        return self.store.way.run(self.store.visited(CLEAN + script), args)

    def _looked(self, command: str, script: str, *args: str) -> str:
        done = self._visited(script, [self.store.workspace, *args])
        if done.code and any(said in done.err for said in NO_JOB):
            return ""
        self.refuse(command, done)
        return done.out.decode(errors="replace")

    def _changed(
        self, command: str, script: str, args: Sequence[str], content: bytes | None = None
    ) -> bytes:
        blocks = None if content is None else [content]
        try:  # in the workspace, to which the paths in a plan are relative
            done = self.store.way.run(self.store.entered(CLEAN + script), args, blocks)
        except Unavailable as exc:
            raise RemoteError(exc.message, exc.hint, transient=True) from exc
        if command == "scancel" and _over(done):
            return b""
        self.refuse(command, done)
        return done.out

    def refuse(self, command: str, done: Done) -> None:
        """Raise the error of *command*, if it failed."""
        if not done.code and not done.lost:
            return
        said = _said(done.err) or f"it exited with code {done.code}"
        what = f"{self.store.way.where}: {command}: {said}"
        if done.lost or done.code > KILLED or any(text in done.err for text in UNSURE):
            raise NoAnswer(what)
        if done.code == CHANGED:
            what = f"{self.store.way.where}: {command}: the script arrived incomplete or corrupted"
            raise RemoteError(what, transient=True)
        if done.code == NO_COMMAND:
            hint = "check that Slurm is installed there (runspec doctor slurm), or set option host"
            raise RemoteError(f"{self.store.way.where} has no {command}", hint)
        if any(text in done.err for text in PASSES):
            raise RemoteError(what, transient=True)
        raise RemoteError(what, next((way for text, way in WAYS if text in done.err), None))


def rows(text: str) -> Iterator[Row]:
    """Yield the jobs in *text*, which squeue printed with FORMAT.

    >>> text = "7|4-5,9%2|PENDING|Priority|0|0|9|N/A|N/A||/w|job-a1|"
    >>> next(rows(text.replace("|", BETWEEN)))[1:4]
    ((4, 5, 9), 'PENDING', 'Priority')
    """
    for line in text.splitlines():
        fields = line.split(BETWEEN, len(FIELDS) - 1)
        if len(fields) == len(FIELDS):
            job, tasks, state, reason, code, restarts, sent, began, ended, nodes, folder, name = (
                fields
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
    """Return the numbers of array tasks from Slurm's notation.

    >>> indices("0-2,7,10-14:2%3"), indices("N/A")
    ((0, 1, 2, 7, 10, 12, 14), (0,))
    """
    numbers: list[int] = []
    for part in text.strip().strip("[]").partition("%")[0].split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if match is not None:
            first, last, step = match[1], match[2] or match[1], match[3] or "1"
            numbers += range(int(first), int(last) + 1, int(step))
    return tuple(numbers) or (0,)


def shell_code(status: int) -> int:
    """Return the exit code of a shell for a status of wait(2).

    >>> shell_code(768), shell_code(9)
    (3, 137)
    """
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8


def pasts(text: str) -> Iterator[Past]:
    """Yield the attempts in sacct's output: an exit code is "code:signal", a state may be "CANCELLED by 1000".

    >>> next(pasts("12_3|FAILED|0:9|1700000000|1700000005|1699999999|/w|job-a1".replace("|", BETWEEN)))[:3]
    (3, 'FAILED', 137)
    """
    attempts = dict[int, int]()
    for line in text.splitlines():
        fields = line.split(BETWEEN, 7)
        if len(fields) == 8 and fields[1].strip():
            job, state, code, began, ended, sent, folder, name = fields
            code_text, _, signal = code.partition(":")
            number = 128 + int(signal) if signal.isdigit() and int(signal) else None
            if number is None and code_text.isdigit():
                number = int(code_text)
            for task in indices(job.partition("_")[2] or "N/A"):
                when = (_seconds(began), _seconds(ended))
                before = attempts.get(task, 0)
                attempts[task] = before + 1
                said = state.split()[0]
                yield Past(task, said, number, *when, folder, name, _seconds(sent), before)


def _seconds(text: str) -> float | None:
    return float(text) if text.strip().isdigit() else None


def _over(done: Done) -> bool:
    """Return whether the jobs that scancel was to cancel had ended already."""
    silent = done.code == OVER_CODE and not done.err.strip() and not done.lost
    return silent or any(said in done.err for said in OVER)


def _said(err: str) -> str:
    """Return the last error line, or else the last line, without the name of the command before it."""
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return re.sub(r"^\w+: error: ", "", (errors or lines or [""])[-1])
