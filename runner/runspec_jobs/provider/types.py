"""The types that the core and providers exchange: options, facts, statuses, files, and routes to nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, BinaryIO, ClassVar, Literal, Protocol

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.errors import RemoteError
from runspec_jobs.provider.node_ends import OF_PEER
from runspec_jobs.provider.steps import Request
from runspec_jobs.spec.field_marks import Anyone, User
from runspec_jobs.spec.types import SHELL, Key, Model, make_match_validator

Progress = Callable[
    [int, int], None
]  # called with the bytes or items done, and their total or 0 if it is unknown

# The name of a cloud's secret store contains a hyphen, so that `user:password` is never taken for one.
LOCAL_SECRET = r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"
SECRET_SOURCE = r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+|[a-z][a-z0-9]*(-[a-z0-9]+)+:.+)$"

SecretSource = Annotated[
    str,
    BeforeValidator(
        make_match_validator(
            SECRET_SOURCE, "where a secret lives", "write env:NAME or file:/path", private=True
        )
    ),
    WithJsonSchema({"type": "string", "pattern": SECRET_SOURCE}),
]
LocalSecret = Annotated[
    str,
    BeforeValidator(
        make_match_validator(
            LOCAL_SECRET, "where a secret lives", "write env:NAME or file:/path", private=True
        )
    ),
    WithJsonSchema({"type": "string", "pattern": LOCAL_SECRET}),
]
"""The source of a secret that runspec itself needs before it asks any service."""


class SecretSources(dict[str, str]):
    """Where secrets are, by name; a variable of the caller's shell, which a spec names, is its own source."""

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or str(key).startswith(SHELL)

    def __missing__(self, key: str) -> str:
        if key.startswith(SHELL):
            return key
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the source of the secret *key*, or *default*."""
        return super().get(key, key if key.startswith(SHELL) else default)


class Options(Model):
    """The base class of every provider's `options_model`: the settings of an account, from the profile.

    A spec may override some of them under `providers: {NAME: {...}}`. An option without a useful default is required
    by `check`, not by the model, so that a spec can be checked without a profile.
    """

    secrets: User[Annotated[Mapping[Key, SecretSource], AfterValidator(SecretSources)]] = Field(
        default={},
        validate_default=True,
        description="Where the value of each secret is stored: `env:NAME`, `file:/path`, or a secret "
        "store of the cloud; the page of each provider says which of them it has.",
    )
    pools: Anyone[Mapping[Key, Mapping[str, Any]]] = Field(
        default={},
        description="What `capacity: pool:NAME` means: settings of this provider for jobs of that pool, "
        "which override the other settings of the profile.",
    )
    has_pools: ClassVar[bool] = True  # False if the provider ignores the names of pools
    # What to write in place of a list of regions or zones.
    places: ClassVar[str | None] = None


WHOLE, PARTS = "sha256:", "sha256-parts:"


class Source(NamedTuple):
    """A folder of this machine that a spec mounts, with the digest, number and size of its files.

    If the spec mounts one file (*is_file*), it is a folder with that file alone, under the last name of its target.

    A digest begins with `PARTS` if the folder has files of several parts, whose digests are those of lists of their
    parts, and with `WHOLE` if every digest of a file is the SHA-256 of its content. docs/agent.md defines both.
    """

    digest: str
    files: int
    bytes: int
    is_file: bool = False

    @property
    def name(self) -> str:
        """The digest without its kind.

        >>> Source("sha256-parts:ab12", 1, 27).name
        'ab12'
        """
        return self.digest.rpartition(":")[2]

    @property
    def counted(self) -> str:
        """The number of files, for people.

        >>> Source("", 1, 27).counted, Source("", 2000, 27).counted
        ('1 file', '2,000 files')
        """
        return "1 file" if self.files == 1 else f"{self.files:,} files"

    @property
    def fields(self) -> dict[str, Any]:
        """The fields for a record, in which `is_file` is there only if it is true, as older versions know none.

        >>> Source("sha256:ab12", 1, 27).fields
        {'digest': 'sha256:ab12', 'files': 1, 'bytes': 27}
        """
        return {name: value for name, value in self._asdict().items() if value is not False}


NOT_YET = Source(
    f"{WHOLE}{'0' * 64}", 0, 0
)  # of a mounted output, as long as its run may not have ended


class SavedOutput(NamedTuple):
    """An output of another run, which a job reads as it was saved.

    Its saves lie in the store of the job or, if `Facts.sources` has the mount, in a folder that is uploaded. In the
    store, the manifest of each task and node lies at `runs/RUN/outputs/OUTPUT/TASK/NODE/`, as docs/agent.md describes,
    and in the folder at `TASK/NODE/`. The job reads those of the first *tasks* tasks and *nodes* nodes, or of *task*
    alone; with *same*, each of its tasks reads those of the task of its own number.
    """

    run: str
    output: str
    tasks: int = 1
    nodes: int = 1
    task: int | None = None
    same: bool = False


class Parent(NamedTuple):
    """A run of the same service that must have ended as *condition* says before a job starts.

    *condition* is `succeeded`, `failed` or `ended`. *steps* are the ids of the steps that submit its jobs. If the runs
    are *paired*, each task may start when the task of its own number has ended so.
    """

    run: str
    condition: str
    steps: tuple[str, ...]
    paired: bool = False


class Resume(NamedTuple):
    """The run *run* whose saves the outputs of a run begin with.

    *saves* has the number of a save for each output and each `TASK/NODE` that begins with one; 0 is the only save of a
    run that saves once. The saves are read in place or, if they are *copied*, uploaded as a folder for each
    `TASK/NODE`, whose source is called `copy_name`. *content* is the digest of what they contain.
    """

    run: str
    saves: Mapping[str, Mapping[str, int]]
    copied: bool = False
    content: str = ""

    @property
    def parts(self) -> list[str]:
        """Each `TASK/NODE` that has a save, in order."""
        parts = {part for saves in self.saves.values() for part in saves}
        return sorted(parts, key=lambda part: tuple(map(int, part.split("/"))))

    @property
    def number(self) -> int | None:
        """The number of the save, or None if that is not the same for all outputs, tasks and nodes."""
        numbers = {number for saves in self.saves.values() for number in saves.values()}
        return numbers.pop() if len(numbers) == 1 else None


def copy_name(part: str) -> str:
    """Return the name of the source with copies of the saves of *part*; no mount can have such a name.

    >>> copy_name("3/0")
    'resume:3/0'
    """
    return f"resume:{part}"


class Facts(NamedTuple):
    """Everything that planning needs beside the spec; it is collected before planning.

    *options* is an instance of the provider's `options_model`, from the profile and the spec. *sources* are the folders
    of this machine by mount name, and *outputs* the outputs of other runs. *requirements* are the lines of the
    requirements file or list. *survey* has the results of the provider's discovery, as JSON values. Facts that are not
    *complete* come from the spec alone (`runspec validate`): then nothing is planned, and `check` skips problems that
    the profile or discovery may solve. *parents* are the runs that the service itself waits for, and *resume* the
    run whose saves the outputs begin with; both are in no digest.
    """

    options: Any
    sources: Mapping[str, Source] = {}
    requirements: tuple[str, ...] = ()
    survey: Mapping[str, Any] = {}
    complete: bool = True
    outputs: Mapping[str, SavedOutput] = {}
    parents: Sequence[Parent] = ()
    resume: Resume | None = None


class State(StrEnum):
    """The state of a run. The last four are terminal: a run never leaves them."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    GONE = "gone"  # the service has no such run, or no longer has it

    @property
    def terminal(self) -> bool:
        """Whether the run has ended, one way or another."""
        return self not in (State.WAITING, State.RUNNING)


class Attempt(NamedTuple):
    """One attempt of a node that has ended; *number* counts from 1.

    *reclaimed* is true if the machine was reclaimed, which is not a failure of the job. The times are seconds since
    1970 by the service's clock, or None if the service does not report them. *setup_s* is how many seconds the setup
    took, by the clock of the node, or None if there is none, or none that has ended.
    """

    number: int
    exit_code: int | None = None
    reason: str = ""
    reclaimed: bool = False
    began_s: float | None = None
    ended_s: float | None = None
    setup_s: float | None = None


class Places(NamedTuple):
    """Where a person finds what a run leaves, such as a folder, a URL or the name of a log group; "" if nowhere."""

    logs: str = ""
    outputs: str = ""


class NodeRef(NamedTuple):
    """A node that joined, left or was lost, by its number and host, and the reason."""

    node: int
    host: str
    why: str = ""


class MembershipChange(NamedTuple):
    """A membership change of an elastic job: the generation that began with it, and what it cost.

    *gap_s* is the time from the last step before it to the first step after it, *lost_steps* the number of steps that
    were repeated; None means unknown. If *exact* is false, *gap_s* is an upper and *lost_steps* a lower bound.
    *first_step* is None if there was no step yet, or the program does not report its steps. *since* is the generation
    that did the last step before. *at* is Unix time. *before* is the number of nodes before; 0 at the start of the job.
    """

    task: int
    generation: int
    at: float
    before: int
    nodes: int
    why: str
    gap_s: float | None
    lost_steps: int | None
    first_step: int | None = None
    since: int | None = None
    exact: bool = True
    came: tuple[NodeRef, ...] = ()
    left: tuple[NodeRef, ...] = ()
    lost: tuple[NodeRef, ...] = ()


WHO = MembershipChange._fields[-3:]


def changes_of(records: Iterable[tuple[int, bytes]]) -> list[MembershipChange]:
    """Return the membership changes in *records*, pairs of a task and the content of `runs/RUN/elastic/TASK/changes/N`.

    Raises RemoteError if one cannot be parsed, because the costs would be too low without it.
    """
    try:
        return sorted(_change(task, json.loads(content)) for task, content in records)
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        message = f"the record of a change cannot be read: {type(exc).__name__}: {exc}"
        raise RemoteError(message, "use the version of runspec that started the run") from exc


def _change(task: int, record: Mapping[str, Any]) -> MembershipChange:
    who = (tuple(NodeRef(**node) for node in record.get(name, ())) for name in WHO)
    return MembershipChange(
        task, *(record[name] for name in MembershipChange._fields[1 : -len(WHO)]), *who
    )


class NodeStatus(NamedTuple):
    """The status of one node of one task; *reason* is a message for the user.

    *attempts* are its attempts that have ended, in order, without those that the service has forgotten. *began_s* is
    when the attempt that runs began, in seconds since 1970, or None if none runs or the service does not report it.
    *machines* is more than 1 if the service reports one status for all nodes of a task.
    """

    task: int
    rank: int
    attempt: int
    state: State
    reason: str = ""
    exit_code: int | None = None
    attempts: tuple[Attempt, ...] = ()
    began_s: float | None = None
    machines: int = 1


Seat = tuple[int, int]  # a node: its task, and its number in the task


class Released(NamedTuple):
    """The nodes *away*, which were released and not asked for since, and those that have not left yet.

    *never_back* says why the service cannot start nodes again that were away, if it cannot.
    """

    away: Collection[Seat]
    leaving: Collection[Seat]
    never_back: str = ""


class Status(NamedTuple):
    """The status of a run: its *state*, and that of its *nodes*; *reason* says why it waits, or why it failed.

    *exit_code* is that of the node that made it fail, if it is known.
    """

    state: State
    reason: str = ""
    exit_code: int | None = None
    nodes: tuple[NodeStatus, ...] = ()

    def __repr__(self) -> str:
        words = [str(self.state), *([self.reason] if self.reason else [])]
        if self.exit_code is not None:
            words.append(f"exit code {self.exit_code}")
        return f"<Status {', '.join(words)}>"

    def _repr_html_(self) -> str:
        from runspec_jobs.diagnostics.html_table import make_html_table  # no command needs it

        columns = ("task", "node", "attempt", "state", "exit code", "reason")
        rows = [(n.task, n.rank, n.attempt, n.state, n.exit_code, n.reason) for n in self.nodes]
        return make_html_table(repr(self)[1:-1], columns, rows)


class File(NamedTuple):
    """A file of a bundle. *path* is relative, with "/" between its parts.

    Its *mode*, of which the digest of the bundle contains only whether the owner may execute the file, and its time,
    in seconds since 1970, are those that it had when it was hashed. They are no part of the digest: a checkout by git
    changes them.
    """

    path: str
    bytes: int
    executable: bool
    sha256: str
    mode: int | None = None
    mtime_s: int = 0

    @property
    def permissions(self) -> int:
        """The permissions of the file in a job; its owner may read it."""
        return (0o755 if self.executable else 0o644) if self.mode is None else self.mode | 0o400


class Bundle(Protocol):
    """The content of one folder of this machine, exactly as it was hashed for the plan."""

    @property
    def digest(self) -> str:
        """The digest of the content, as in the `Source` of the plan."""

    @property
    def files(self) -> Sequence[File]:
        """All files of the folder, ordered by path."""

    def open(self, file: File) -> BinaryIO:
        """Open one file for reading.

        Reading to its end raises Conflict if the content differs from what was hashed. What is read may be a
        `HashedPart`.
        """


class OutputFile(NamedTuple):
    """A file that a job wrote to an output. *path* is relative to the output's folder, with "/" between its parts.

    *output* is the name of the output, *task* and *rank* are those of the node that wrote the file, *bytes* is its
    size, and *open* returns a file to read it from.

    *save* is the number of the save that contains it, or 0 if outputs are saved only once, and *newest* says whether
    that is the last save. *sha256* is the digest of its content, if known, and *key* is the key of its object.

    *kind* is `file`, also for a link to a file, which has a *target*. The other kinds have no content: a `folder`, a
    `link` to a folder or to nothing, and what was `lost` because it cannot be saved, with the reason as *target*. A
    target that begins with "/" begins at the output's folder. *mode* and *mtime_ns* are None if they are not known, and
    so is *saved_s*, when the node began the save, in seconds since 1970 by its clock.
    """

    output: str
    task: int
    rank: int
    path: str
    bytes: int
    open: Callable[[], BinaryIO]
    save: int = 0
    sha256: str = ""
    key: str = ""
    newest: bool = True
    kind: Literal["file", "folder", "link", "lost"] = "file"
    target: str = ""
    mode: int | None = None
    mtime_ns: int | None = None
    saved_s: int | None = None


class Orphan(NamedTuple):
    """A resource that runspec made and that no local record mentions; *remove* are the requests that delete it.

    *run* is the run that it belongs to, if any. *alive* is true if a job that has not ended needs it.
    """

    what: str
    remove: tuple[Request, ...]
    run: str | None = None
    alive: bool = False


class Emulation(NamedTuple):
    """Running emulators: *env* has the variables that direct SDKs to them, *options* the completed settings.

    *notes* tell the user which parts of the plan are not rehearsed.
    """

    env: Mapping[str, str]
    options: Mapping[str, Any]
    notes: tuple[str, ...] = ()


class ForeignFile(NamedTuple):
    """A file of another tool: its *name* as the user wrote it, and its text."""

    name: str
    text: str


class Imported(NamedTuple):
    """A file of another tool translated to YAML: a spec, and the settings for a profile.

    *notes* list everything that could not be translated, and everything that the user must do by hand. *files* are
    texts that the spec mounts, by their paths beside it.
    """

    spec: str
    profile: str
    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = {}


class Exported(NamedTuple):
    """A plan as files of another tool, by name; *notes* list what the user must do by hand."""

    files: Mapping[str, str]
    notes: tuple[str, ...] = ()


class Finding(NamedTuple):
    """The result of one check of `doctor`. *hint* says what to do if it is not *ok*, or if it is *unknown*.

    An *unknown* finding is about something that could not be checked: it is *ok*, because nothing is known to be wrong.
    """

    what: str
    ok: bool
    hint: str | None = None
    unknown: bool = False


class ExecSpec(NamedTuple):
    """A program that replaces the process of runspec, and gets the user's terminal.

    *env* is its whole environment, or None for that of runspec; it may contain secrets, and is never shown. *argv*
    contains no secrets. *folder* is its working directory, or None for the current one. *notes* are printed before it
    starts.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] | None = None
    folder: str | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Interactive(argv={self.argv!r}, folder={self.folder!r})"


class Address(NamedTuple):
    """An address that this machine can reach by TCP."""

    host: str
    port: int


class StdioProxy(NamedTuple):
    """A program that is started for each connection, and carries its data over standard input and output.

    The data is divided into frames, which `runspec_agent.job.port_relay` describes.
    """

    argv: tuple[str, ...]


class Forward(NamedTuple):
    """A program that keeps running, and forwards connections from a Unix socket of this machine to the port.

    In each argument, `{socket}` stands for the path of the socket, in a folder that only its owner can enter:
    `ssh -N -L {socket}:NODE:8888 LOGIN`.
    """

    argv: tuple[str, ...]


Route = Address | StdioProxy | Forward


ENDED_BY_OTHERS = {
    143: 2,
    137: 1,
}  # SIGTERM; SIGKILL after the grace period, or when memory ran out


def blamed(nodes: Iterable[NodeStatus]) -> NodeStatus | None:
    """Return the failed node that probably caused the failure of the job, or None if no node has failed.

    A node that failed by itself is preferred to one that may have been stopped because of another.

    >>> first = NodeStatus(0, 0, 1, State.FAILED, exit_code=143)
    >>> blamed([first, NodeStatus(0, 1, 1, State.FAILED, exit_code=3)]).exit_code
    3
    >>> blamed([NodeStatus(0, 1, 1, State.FAILED, OF_PEER, 75), first]).exit_code
    143
    """

    def order(node: NodeStatus) -> int:
        if node.reason == OF_PEER:
            return 4
        return ENDED_BY_OTHERS.get(node.exit_code, 0) if node.exit_code else 3

    return min((node for node in nodes if node.state is State.FAILED), key=order, default=None)


def list_halted(record: Mapping[str, Any], failed: Collection[int], count: int) -> set[int]:
    """Return the tasks, of *count*, that `max_failed` of *record* has ended or keeps from starting.

    *failed* are those with a file `failed/TASK`: see `runspec_agent.retry.stop_request`.
    """
    most = record.get("max_failed")
    return set() if most is None or len(failed) < most else set(range(count)) - {*failed}


def tell_halted(status: Status, most: int | None) -> Status:
    """Return the *status* of a run at its end with how many tasks `max_failed`, which is *most*, has ended."""
    states = {(node.task, node.state) for node in status.nodes}
    failed = sum(state is State.FAILED for _, state in states)
    rest = sum(state is State.CANCELLED for _, state in states)
    if most is None or status.state is not State.FAILED or failed < most or not rest:
        return status
    those = "1 task has" if failed == 1 else f"{failed} tasks have"
    others = "1 other was" if rest == 1 else f"{rest} others were"
    said = f"max_failed: {most}: {those} failed, and {others} cancelled"
    return status._replace(reason=f"{status.reason}; {said}" if status.reason else said)
