"""The one door for providers: everything a provider may import, and what it promises in return.

A provider has two halves. The `Provider` is pure: it checks a spec and turns it into a plan,
touching no network, clock, environment or disk. Its `Client` is the other half: it sends the
requests of a plan. What a client can do beyond that is a protocol with one method, asked for
with isinstance: `Stage`, `Tail`, `Outputs`, `Talks`, `Remembers`, `Collects`; of a provider,
`Survey`, `Doctor`, `Permits`, `Introduces` and `Rehearses`. `runspec.testing` asks
every promise made here of every registered provider.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path as Folder
from typing import Annotated, Any, BinaryIO, NamedTuple, Protocol, runtime_checkable

from pydantic import BeforeValidator, Field, WithJsonSchema

from runspec.errors import (
    Conflict,
    CredentialsError,
    NoAnswer,
    RemoteError,
    RunspecError,
    Unavailable,
    UsageError,
)
from runspec.home import home as state_folder
from runspec.inside import (
    boot_py as inside_boot,
    inside_sh,
    inside_signed,
    zipapp_bytes as inside_zipapp,
)
from runspec.problems import Path, Problem, did_you_mean
from runspec.scalars import Bytes, Key, Positive, Seconds, Truth, Whole, Word, matching
from runspec.spec import Capacity, Launch, Model, Mount, Nodes, Output, Spec
from runspec.words import argv, shell_script, tasks, variable

__all__ = [
    "SECRET_SOURCE",
    "Answer",
    "Bundle",
    "Bytes",
    "Capacity",
    "Chunk",
    "Client",
    "Collects",
    "Conflict",
    "CredentialsError",
    "Doctor",
    "Facts",
    "File",
    "Finding",
    "Introduces",
    "Key",
    "Launch",
    "Litter",
    "Model",
    "Mount",
    "NoAnswer",
    "NodeStatus",
    "Nodes",
    "Options",
    "Output",
    "OutputFile",
    "Outputs",
    "Path",
    "Permits",
    "Positive",
    "Problem",
    "Progress",
    "Provider",
    "Rehearsal",
    "Rehearses",
    "Remembers",
    "RemoteError",
    "Request",
    "RunspecError",
    "Scope",
    "Seconds",
    "SecretSource",
    "Source",
    "Spec",
    "Stage",
    "State",
    "Status",
    "Step",
    "Stream",
    "Survey",
    "Tail",
    "Talks",
    "Truth",
    "Unavailable",
    "UsageError",
    "Whole",
    "Word",
    "argv",
    "did_you_mean",
    "inside_boot",
    "inside_sh",
    "inside_signed",
    "inside_zipapp",
    "matching",
    "shell_script",
    "state_folder",
    "tasks",
    "variable",
]

Answer = Mapping[str, Any]
Progress = Callable[[int, int], None]  # bytes (or items) done, and in all; 0 where not known

SECRET_SOURCE = r"^[a-z][a-z0-9-]*:.+$"
SecretSource = Annotated[
    str,
    BeforeValidator(
        matching(SECRET_SOURCE, "where a secret lives", "write env:NAME, file:/path or aws-sm:id")
    ),
    WithJsonSchema({"type": "string", "pattern": SECRET_SOURCE}),
]


class Options(Model):
    """The base of every provider's `options_model`: settings of an account, from the profile.

    A spec may override single ones under `providers: {NAME: {...}}`. Every option has a default
    or is asked for by `check`, so that a spec can be checked where no profile is.
    """

    secrets: Mapping[Key, SecretSource] = Field(
        default={},
        description="Where each secret lives: `env:NAME`, `file:/path`, or a store of the cloud.",
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


class NodeStatus(NamedTuple):
    """One node of one task, as it is; *reason* is in the user's words."""

    task: int
    rank: int
    attempt: int
    state: State
    reason: str = ""
    exit_code: int | None = None


class Status(NamedTuple):
    """A run as it is: *reason* says why it waits, or why it failed."""

    state: State
    reason: str = ""
    exit_code: int | None = None
    nodes: tuple[NodeStatus, ...] = ()


class Provider(Protocol):
    """The pure half. Planning twice with equal arguments gives equal plans, offline."""

    @property
    def name(self) -> str:
        """The word after `provider:`."""

    @property
    def options_model(self) -> type[Options]:
        """The model of this provider's block in the profile and in `providers:` of a spec."""

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        """Give all that this provider cannot do of *spec*, each with a way out.

        Must not raise for any valid spec. Called before every plan; when it gives an error,
        nothing is planned.
        """

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        """Give the steps that run *spec* as *run*, in order.

        Step ids are unique. Every name that is made for a run step holds *run*; every name made
        for a site step comes from the content of what it is, never from *run*.
        """

    def connect(self, facts: Facts) -> Client:
        """Open the other half; SDKs are imported here and not before.

        Raises CredentialsError or Unavailable.
        """


class Client(Protocol):
    """The other half: it sends requests. It never tries anything again by itself."""

    def call(self, request: Request) -> Answer:
        """Send *request* and give its answer, a mapping of JSON values.

        Raises RemoteError when the service definitely refused (nothing was made), and NoAnswer
        when it may or may not have been carried out. A request that undoes must be content
        when there is nothing to undo.
        """

    def find(self, step: Step) -> Answer | None:
        """Give the answer that *step* would have given, if it was already done.

        None when it was not, or when what is there is being taken away. Raises Conflict when
        something else has its name.
        """

    def settled(self, step: Step) -> bool:
        """Say whether what *step* made can be used now; asked until true before the next step.

        Raises RemoteError when it never will be.
        """

    def state(self, run: str) -> Status:
        """Give how *run* is. GONE when there is no such job."""

    def cancel(self, run: str) -> None:
        """Begin to end every job of *run*, and all that is left of it; content when there is none.

        Called once at least, for a run that has ended too, and then until it is terminal. A job of *run* that a call
        made before has yet to start must not run any more.
        """


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


@runtime_checkable
class Survey(Protocol):
    """A provider that knows things about this machine or its service that plans depend on."""

    def survey(self, spec: Spec, options: Any) -> Mapping[str, Any]:
        """Give facts for `Facts.survey`, JSON values only.

        Must work without credentials: what cannot be reached is left out.
        """


@runtime_checkable
class Stage(Protocol):
    """A client that puts folders of this machine where the job can read them."""

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Answer:
        """Carry out *request*, whose params held `{"$file": ...}`, with *bundle* for it.

        Raises as `Client.call` does. A half-done earlier try must do no harm.
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


@runtime_checkable
class Tail(Protocol):
    """A client that gives back what jobs print."""

    @property
    def poll_s(self) -> float:
        """Seconds between two looks at a stream that had nothing new."""

    def streams(self, run: str) -> Sequence[Stream]:
        """Give the streams there are by now, ordered by task and rank."""


class OutputFile(NamedTuple):
    """A file a job left in an output. *path* is below the output's folder, "/" between parts."""

    output: str
    task: int
    rank: int
    path: str
    bytes: int
    open: Callable[[], BinaryIO]


@runtime_checkable
class Outputs(Protocol):
    """A client that gives back what jobs wrote."""

    def outputs(self, run: str) -> Sequence[OutputFile]:
        """Give every file saved so far, ordered by output, task, rank and path."""


@runtime_checkable
class Talks(Protocol):
    """A client whose calls may take minutes and that says meanwhile what it does."""

    def listen(self, tell: Callable[[str], None]) -> None:
        """Have *tell* called with a line for a person, from within later calls."""


@runtime_checkable
class Remembers(Protocol):
    """A client that is spared looking for what is known already."""

    def remember(self, run: str, answers: Mapping[str, Answer]) -> None:
        """Take the answers that the steps of *run* have had, by step id.

        Called before anything is asked about a run that was begun by another process.
        """


class Litter(NamedTuple):
    """Something of ours at a service that no run on record knows; *remove* are the calls, in order.

    *run* is the run it is of, where there is one. *alive* says that a job which has not ended needs it.
    """

    what: str
    remove: tuple[Request, ...]
    run: str | None = None
    alive: bool = False


@runtime_checkable
class Collects(Protocol):
    """A client that finds what is left over, by names and tags."""

    def litter(self, runs: Collection[str], made: Collection[str]) -> Iterable[Litter]:
        """Give all that is neither of *runs* nor one of the names *made*, in the order to remove it.

        *made* are all texts in the plans on record, names among them.
        """


@runtime_checkable
class Permits(Protocol):
    """A provider whose service asks for rights."""

    def policy(self, steps: Iterable[Step], options: Any, *, of_job: bool) -> Mapping[str, Any]:
        """Give the least rights, in the service's own form, for whoever carries out *steps*.

        *of_job*: for what runs in the job instead.
        """


@runtime_checkable
class Introduces(Protocol):
    """A provider that needs a profile, and has a first one to fill in."""

    def first_profile(self) -> str:
        """Give the text of `runspec-profile.yaml`."""


class Rehearsal(NamedTuple):
    """Stand-ins that are up: *env* leads SDKs to them, *options* are the profile's, made complete."""

    env: Mapping[str, str]
    options: Mapping[str, Any]


@runtime_checkable
class Rehearses(Protocol):
    """A provider whose service has stand-ins on this machine."""

    @property
    def name(self) -> str: ...

    def rehearse(
        self, options: Mapping[str, Any], folder: Folder, engine: str | None
    ) -> AbstractContextManager[Rehearsal]:
        """Start the stand-ins, on loopback, with all they need below *folder*; end them afterwards.

        *options* are those of the profile. *engine* is what runs the jobs: `process` or `podman`;
        None picks. Raises Unavailable when something for it is missing.
        """


class Finding(NamedTuple):
    """One thing `doctor` looked at. *hint* says what to do when it is not *ok*."""

    what: str
    ok: bool
    hint: str | None = None


@runtime_checkable
class Doctor(Protocol):
    """A provider that can say what will stop a job before anything is made."""

    def examine(self, options: Any) -> Iterable[Finding]:
        """Give findings, most important first. Never raises for what it looks at."""
