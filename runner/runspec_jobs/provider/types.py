"""What the core and providers hand to each other: requests and steps, facts, how runs stand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, BinaryIO, ClassVar, NamedTuple, Protocol

from pydantic import BeforeValidator, Field, WithJsonSchema

from runspec_jobs.errors import RemoteError
from runspec_jobs.spec.base import Model
from runspec_jobs.spec.field_marks import Anyone, User
from runspec_jobs.spec.types import Key, matching

Response = Mapping[str, Any]
Progress = Callable[[int, int], None]  # bytes (or items) done, and in all; 0 where not known

# A store of a cloud has a name of two parts, so that `user:password` is none of them.
LOCAL_SECRET = r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"
SECRET_SOURCE = r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+|[a-z][a-z0-9]*(-[a-z0-9]+)+:.+)$"

SecretSource = Annotated[
    str,
    BeforeValidator(
        matching(
            SECRET_SOURCE, "where a secret lives", "write env:NAME or file:/path", private=True
        )
    ),
    WithJsonSchema({"type": "string", "pattern": SECRET_SOURCE}),
]
LocalSecret = Annotated[
    str,
    BeforeValidator(
        matching(LOCAL_SECRET, "where a secret lives", "write env:NAME or file:/path", private=True)
    ),
    WithJsonSchema({"type": "string", "pattern": LOCAL_SECRET}),
]
"""A secret that runspec itself needs, before any service is asked."""


class Options(Model):
    """The base of every provider's `options_model`: settings of an account, from the profile.

    A spec may override single ones under `providers: {NAME: {...}}`. Every option has a default
    or is asked for by `check`, so that a spec can be checked where no profile is.
    """

    secrets: User[Mapping[Key, SecretSource]] = Field(
        default={},
        description="Where the value of each secret is stored: `env:NAME`, `file:/path`, or a secret "
        "store of the cloud.",
    )
    pools: Anyone[Mapping[Key, Mapping[str, Any]]] = Field(
        default={},
        description="What `capacity: pool:NAME` means: settings of this provider for jobs of that pool, "
        "which override the other settings of the profile.",
    )
    has_pools: ClassVar[bool] = (
        True  # False where machines come from one place, and a name says nothing
    )


class Scope(StrEnum):
    """Whether a step belongs to one run, or outlives runs and is shared by equal needs."""

    RUN = "run"
    SITE = "site"


class Request(NamedTuple):
    """One call, word for word: *params* are exactly what is sent.

    What is not known while planning is a mapping with one key: `{"$ref": "step.field"}` is a
    field of an earlier step's answer, `{"$secret": "env:NAME"}` a secret, `{"$file": "mount"}`
    the content of a folder of this machine, `{"$signed": "GET key"}` a signed URL. They are put
    in at the last moment and nowhere else: signed URLs by the client, the rest by the core.
    """

    service: str
    operation: str
    params: Mapping[str, Any]


class Step(NamedTuple):
    """One thing to make: how it is made and how it is taken away again.

    *settle_s* is how long, in seconds, the service may take to list what was just made: after
    a call without an answer, `find` is asked this long before the call may be made again.
    *undo* is None where there is nothing to take away.
    """

    id: str
    title: str
    scope: Scope
    do: Request
    undo: Request | None = None
    settle_s: float = 0.0


class Source(NamedTuple):
    """A folder of this machine that a spec mounts, as found: *digest* is of all it holds."""

    digest: str
    files: int
    bytes: int


class Facts(NamedTuple):
    """What planning needs to know beside the spec, gathered first and passed in.

    *options* is the provider's `options_model`, from the profile and the spec. *sources* are the
    folders of this machine by mount name. *requirements* are the lines of the requirements file
    or list. *survey* is what the provider's own `Survey` found: plain JSON values only. Facts
    that are not *complete* come from the spec alone (`runspec validate`): then `check` says
    nothing of what the profile or a survey might still tell, and nothing is planned.
    """

    options: Any
    sources: Mapping[str, Source] = {}
    requirements: tuple[str, ...] = ()
    survey: Mapping[str, Any] = {}
    complete: bool = True


class State(StrEnum):
    """How a run is. The last four are terminal: they never change again."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    GONE = "gone"  # the service knows nothing of it (any more)

    @property
    def terminal(self) -> bool:
        return self not in (State.WAITING, State.RUNNING)


class Attempt(NamedTuple):
    """One try of a node that is over; *number* counts from 1.

    *reclaimed* says that the machine was taken away: that is no failure of the job. The times are
    seconds since 1970, by the service's clock, where it tells them.
    """

    number: int
    exit_code: int | None = None
    reason: str = ""
    reclaimed: bool = False
    began_s: float | None = None
    ended_s: float | None = None


class NodeRef(NamedTuple):
    """A node that came or went, as a user knows it, and why it did."""

    node: int
    host: str
    why: str = ""


class MembershipChange(NamedTuple):
    """A change of the nodes of an elastic job: which generation began with it, and what it cost.

    *gap_s* is from the last step before it to the first one after it, *lost_steps* how many of them were done again;
    None where nobody knows. Where not *exact*, the seconds are the most, and the steps the least that it can have been.
    Without a *first_step* there was none (yet), or the program does not tell. *since* is the generation that did the
    last step before. *at* is Unix time. *before* is how many nodes there were: 0 when the job began.
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
    """Give the changes of which records `runs/RUN/elastic/TASK/changes/N` tell, each behind its task.

    Raises RemoteError where one is none: without it, the others would tell less than there was.
    """
    try:
        return sorted(_change(task, json.loads(content)) for task, content in records)
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        what = f"the record of a change cannot be read: {type(exc).__name__}: {exc}"
        raise RemoteError(what, "was the run made by another version of runspec?") from exc


def _change(task: int, told: Mapping[str, Any]) -> MembershipChange:
    who = (tuple(NodeRef(**one) for one in told.get(name, ())) for name in WHO)
    return MembershipChange(
        task, *(told[name] for name in MembershipChange._fields[1 : -len(WHO)]), *who
    )


class NodeStatus(NamedTuple):
    """One node of one task, as it is; *reason* is in the user's words.

    *attempts* are its tries that are over, the first one first; those that the service forgets are left out.
    """

    task: int
    rank: int
    attempt: int
    state: State
    reason: str = ""
    exit_code: int | None = None
    attempts: tuple[Attempt, ...] = ()


class Status(NamedTuple):
    """A run as it is: *reason* says why it waits, or why it failed."""

    state: State
    reason: str = ""
    exit_code: int | None = None
    nodes: tuple[NodeStatus, ...] = ()


class File(NamedTuple):
    """A file of a bundle. *path* is relative, with "/" between its parts."""

    path: str
    bytes: int
    executable: bool
    sha256: str


class Bundle(Protocol):
    """The content of one folder of this machine, exactly as it was hashed for the plan."""

    @property
    def digest(self) -> str:
        """The digest that the plan's `Source` carries."""

    @property
    def files(self) -> Sequence[File]:
        """All it holds, ordered by path."""

    def open(self, file: File) -> BinaryIO:
        """Open one file for reading.

        What is read is checked: reading to the end raises Conflict if it is no longer what
        was hashed.
        """


class Chunk(NamedTuple):
    """Bytes of a stream, as stored, and the position after them; empty when there are no more."""

    data: bytes
    position: str


class Stream(Protocol):
    """What one node of one task prints, over all its attempts, as the service stores it."""

    @property
    def task(self) -> int: ...

    @property
    def rank(self) -> int: ...

    def read(self, position: str | None) -> Chunk:
        """Give the bytes after *position*; None is the beginning.

        Equal positions give equal bytes, whenever asked and by whomever, as long as the stream
        is kept. An empty chunk means that there is no more for now.
        """


class OutputFile(NamedTuple):
    """A file a job left in an output. *path* is below the output's folder, "/" between parts.

    *save* is the number of the save that it is of, where more than one may be kept, else 0, and *newest* says whether
    that is the last one. *sha256* is of its content, where that is known, and *key* names where that lies.
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


class Orphan(NamedTuple):
    """Something of ours at a service that no run on record knows; *remove* are the calls, in order.

    *run* is the run it is of, where there is one. *alive* says that a job which has not ended needs it.
    """

    what: str
    remove: tuple[Request, ...]
    run: str | None = None
    alive: bool = False


class Emulation(NamedTuple):
    """Stand-ins that are up: *env* leads SDKs to them, *options* are the profile's, made complete.

    *notes* say to a person what of the plan is not rehearsed.
    """

    env: Mapping[str, str]
    options: Mapping[str, Any]
    notes: tuple[str, ...] = ()


class ForeignFile(NamedTuple):
    """A file of another tool: its *name*, as the user wrote it, and its text."""

    name: str
    text: str


class Imported(NamedTuple):
    """What a file of another tool says, as YAML: a spec, and what belongs into a profile.

    *notes* are all that could not be carried over, and all that is to be done by hand.
    """

    spec: str
    profile: str
    notes: tuple[str, ...] = ()


class Exported(NamedTuple):
    """A plan as files of another tool, by name; *notes* are what is to be done by hand."""

    files: Mapping[str, str]
    notes: tuple[str, ...] = ()


class Finding(NamedTuple):
    """One thing `doctor` looked at. *hint* says what to do when it is not *ok*."""

    what: str
    ok: bool
    hint: str | None = None


class ExecSpec(NamedTuple):
    """What is started with the user's terminal, in the place of runspec itself.

    *env* is its whole environment; None is that of runspec. It may hold secrets: it is never shown.
    *argv* holds none. *folder* is where it starts; None is where runspec was called. *notes* are what
    a person should know first.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] | None = None
    folder: str | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Interactive(argv={self.argv!r}, folder={self.folder!r})"


class Address(NamedTuple):
    """A port that can be reached from here by TCP."""

    host: str
    port: int


class StdioProxy(NamedTuple):
    """A program that is started for each connection, and carries it on its input and output.

    It speaks frames, as `runspec_agent relay` does: see there.
    """

    argv: tuple[str, ...]


class Forward(NamedTuple):
    """A program that stays, and leads each connection to a socket of this machine to the port.

    In each word, `{socket}` stands for the path of that Unix socket, in a folder that only its owner
    may enter: `ssh -N -L {socket}:NODE:8888 LOGIN`.
    """

    argv: tuple[str, ...]


Route = Address | StdioProxy | Forward
