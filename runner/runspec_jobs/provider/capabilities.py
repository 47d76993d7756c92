"""What a provider or its client may be able to do beyond what it must: one method each, asked for with isinstance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from runspec_jobs.provider.probe import Probe
from runspec_jobs.provider.types import (
    Bundle,
    Emulation,
    ExecSpec,
    Exported,
    Finding,
    ForeignFile,
    Imported,
    MembershipChange,
    Orphan,
    OutputFile,
    Progress,
    Request,
    Response,
    Route,
    Step,
    Stream,
)
from runspec_jobs.spec.model import Spec


@runtime_checkable
class SupportsDiscovery(Protocol):
    """A provider that knows things about this machine or its service that plans depend on."""

    def survey(self, spec: Spec, options: Any) -> Mapping[str, Any]:
        """Give facts for `Facts.survey`, JSON values only.

        Must work without credentials: what cannot be reached is left out.
        """


@runtime_checkable
class SupportsUpload(Protocol):
    """A client that puts folders of this machine where the job can read them."""

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Response:
        """Carry out *request*, whose params held `{"$file": ...}`, with *bundle* for it.

        Raises as `Client.call` does. A half-done earlier try must do no harm.
        """


@runtime_checkable
class SupportsLogs(Protocol):
    """A client that gives back what jobs print."""

    @property
    def poll_s(self) -> float:
        """Seconds between two looks at a stream that had nothing new."""

    def streams(self, run: str) -> Sequence[Stream]:
        """Give the streams there are by now, ordered by task and rank."""


@runtime_checkable
class SupportsOutputs(Protocol):
    """A client that gives back what jobs wrote."""

    def outputs(self, run: str) -> Sequence[OutputFile]:
        """Give every file saved so far, ordered by output, task, rank and path."""


@runtime_checkable
class SupportsPublishing(Protocol):
    """A client whose jobs save objects, which have plain names for other tools when a run has ended."""

    def publish(self, run: str) -> Sequence[str]:
        """Finish what the last agent of each node did not: copy the newest saves to their plain names.

        Called only when no attempt of *run* will come any more. `saved_outputs.unpublished` says what is to be
        done; the store copies by itself, and the note is written last, so that a later call finishes one that was
        killed. Return a line for each name that the store cannot have. Raises as `Client.call` does.
        """


@runtime_checkable
class SupportsTaskStop(Protocol):
    """A client that can end single tasks of a sweep while the others go on."""

    def stop(self, run: str, tasks: Collection[int]) -> None:
        """Begin to end *tasks* of *run*, and content where they have ended; asked again until they have.

        One that waits must not begin any more. One that runs is told to end, is not tried again, and what it wrote is
        saved. In `state` their nodes are CANCELLED, and the run has SUCCEEDED when its other tasks have; one all of
        whose tasks were stopped is CANCELLED.
        """


@runtime_checkable
class SupportsProgress(Protocol):
    """A client whose calls may take minutes and that says meanwhile what it does."""

    def listen(self, tell: Callable[[str], None]) -> None:
        """Have *tell* called with a line for a person, from within later calls."""


@runtime_checkable
class SupportsRehydration(Protocol):
    """A client that is spared looking for what is known already."""

    def remember(self, run: str, answers: Mapping[str, Response]) -> None:
        """Take the answers that the steps of *run* have had, by step id.

        Called before anything is asked about a run that was begun by another process.
        """


@runtime_checkable
class SupportsMembershipChanges(Protocol):
    """A client whose jobs have nodes that come and go."""

    def changes(self, run: str) -> Sequence[MembershipChange]:
        """Give what is known of each change so far, by task and generation; nothing where nodes stay.

        Asked only of elastic jobs. Of very many, the last ones will do. Raises as `Client.state` does.
        """


@runtime_checkable
class SupportsOrphans(Protocol):
    """A client that finds what is left over, by names and tags."""

    def litter(self, runs: Collection[str], made: Collection[str]) -> Iterable[Orphan]:
        """Give all that is neither of *runs* nor one of the names *made*, in the order to remove it.

        *made* are all texts in the plans on record, names among them.
        """


@runtime_checkable
class SupportsAdoption(Protocol):
    """A client whose store keeps the state of each run beside its data, so that another machine can adopt the run."""

    def keep_state(self, run: str, content: bytes) -> None:
        """Put *content* beside the data of *run*, in the place of an earlier one.

        Called right before the first step of *run* that has an undo, which must take this away, too. Raises as
        `Client.call` does.
        """

    def kept_state(self, run: str) -> bytes | None:
        """Return what is kept of *run*, or None. Anybody who may write to the store may have written it."""

    def kept_runs(self) -> Sequence[str]:
        """Return the names of all runs that have something in the store, in any order."""


@runtime_checkable
class SupportsExec(Protocol):
    """A client that can start a program where a node of a live run works."""

    def shell(
        self, run: str, task: int, rank: int, words: Sequence[str], *, terminal: bool
    ) -> ExecSpec:
        """Give what starts *words*, or a shell where there are none, in the node's folder, environment and container.

        *terminal* says whether its input is one. Called when `state` says that *run* is running. Its exit
        code must be that of what was started. A secret of the job that it does not find there is named in the
        notes. Raises Unavailable, saying why, where that node does not run.
        """


@runtime_checkable
class SupportsPortForward(Protocol):
    """A client that knows a way to what listens on a node of a live run."""

    def tunnel(self, run: str, task: int, rank: int, port: int) -> Route:
        """Give a way to *port* of the node; whether anything listens there is found out on the way.

        Asked again when the way led nowhere: the node may have been tried again elsewhere. Raises
        Unavailable, saying why, where that node does not run.
        """


@runtime_checkable
class SupportsAccessHints(Protocol):
    """A provider that has clients with `SupportsExec` or `SupportsPortForward`, and says so before one is opened."""

    @property
    def enters(self) -> Collection[str]:
        """Which of `shell` and `tunnel` its clients can do."""


@runtime_checkable
class SupportsPolicy(Protocol):
    """A provider whose service asks for rights."""

    def policy(self, steps: Iterable[Step], options: Any, *, of_job: bool) -> Mapping[str, Any]:
        """Give the least rights, in the service's own form, for whoever carries out *steps*.

        *of_job*: for what runs in the job instead.
        """


@runtime_checkable
class SupportsProfileTemplate(Protocol):
    """A provider that needs a profile, and has a first one to fill in."""

    def first_profile(self) -> str:
        """Give the text of `runspec-profile.yaml`."""


@runtime_checkable
class SupportsEmulation(Protocol):
    """A provider whose service has stand-ins on this machine."""

    @property
    def name(self) -> str: ...

    def rehearse(
        self, options: Mapping[str, Any], folder: Path, engine: str | None
    ) -> AbstractContextManager[Emulation]:
        """Start the stand-ins, on loopback, with all they need below *folder*; end them afterwards.

        *options* are those of the profile. *engine* is what runs the jobs: `process` or `podman`;
        None picks. Raises Unavailable when something for it is missing.
        """


@runtime_checkable
class SupportsExport(Protocol):
    """A provider whose plans can be files of another tool for the same service."""

    def export(self, steps: Sequence[Step]) -> Exported:
        """Give the files that say what *steps* do. No secret is in them."""


@runtime_checkable
class SupportsImport(Protocol):
    """A provider that can read job files of another tool for the same service."""

    def imports(self, job: ForeignFile, cluster: ForeignFile | None) -> Imported:
        """Give the spec that *job* is, with *cluster* for its machines where there is such a file.

        What cannot be carried over is told in notes, and no value of a secret is in what is given.
        Raises UsageError, with line and column, for what is no such file.
        """


@runtime_checkable
class SupportsDoctor(Protocol):
    """A provider that can say what will stop a job before anything is made."""

    def examine(self, options: Any) -> Iterable[Finding]:
        """Give findings, most important first. Never raises for what it looks at."""


@runtime_checkable
class SupportsNodeDoctor(Protocol):
    """A provider that can look from within, where its jobs run: that takes a machine, and may cost something."""

    def examine_node(self, options: Any) -> Iterable[Finding]:
        """Give findings, as `SupportsDoctor` does. Called only for `doctor --node`."""


@runtime_checkable
class SupportsProbes(Protocol):
    """A provider that can find out, in a real account, whether what it takes its service for is so."""

    def probes(self, options: Any) -> Sequence[Probe]:
        """Give the probes in the order to carry them out; asks nobody. `docs/unverified.md` has a row for each."""
