"""The optional features of providers and clients: small protocols, which the core looks for with isinstance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from runspec_jobs.provider.steps import Request, Response, Setup, Step

if TYPE_CHECKING:  # annotations alone: no command needs the types of all features
    from runspec_jobs.errors import Conflict
    from runspec_jobs.machines.estimate import Offer
    from runspec_jobs.machines.price_list import ListedPrices, PriceList
    from runspec_jobs.machines.usage import Usage
    from runspec_jobs.provider.probe import Probe
    from runspec_jobs.provider.streams.log_streams import Stream, TimedChunk
    from runspec_jobs.provider.types import (
        Bundle,
        Emulation,
        ExecSpec,
        Exported,
        Finding,
        MembershipChange,
        Options,
        Orphan,
        OutputFile,
        Places,
        Progress,
        Released,
        Route,
        Seat,
    )
    from runspec_jobs.spec.model import Spec


@runtime_checkable
class SupportsDiscovery(Protocol):
    """A provider whose plans depend on facts about this machine or its service."""

    def survey(self, spec: Spec, options: Any) -> Mapping[str, Any]:
        """Return the value of `Facts.survey`, which contains only JSON values.

        Must work without credentials: facts that cannot be found are left out.
        """


@runtime_checkable
class SupportsOffer(Protocol):
    """A provider that knows on which machines a job runs, and what they cost."""

    def offer(self, spec: Spec, facts: Any) -> Offer:
        """Return the machines for *spec*, with their prices. It is pure, as `plan` is, and prices are in no plan."""


@runtime_checkable
class SupportsPrices(Protocol):
    """A provider of a service with a price list that can be read, for `runspec prices --update`."""

    def offer(self, spec: Spec, facts: Any, listed: ListedPrices) -> Offer:
        """Return what `SupportsOffer.offer` does, where prices of *listed* come before those of a catalogue.

        The core puts them in the place of those of machines. The choice must not depend on them.
        """

    def price_list(self, options: Any) -> PriceList | None:
        """Return which prices jobs with *options* need, or None if the region is unknown. It is pure."""

    def read_prices(self, options: Any) -> ListedPrices:
        """Return the prices of `price_list`, without a date. Raises the errors of `Client.call`."""


@runtime_checkable
class SupportsUpload(Protocol):
    """A client that uploads folders of this machine to a place where the job can read them."""

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Response:
        """Carry out *request*, whose params contain `{"$file": ...}`, with the files of *bundle*.

        Raises the errors of `Client.call`. An earlier attempt that was interrupted must do no harm.
        """


@runtime_checkable
class SupportsLogs(Protocol):
    """A client that can read the logs of jobs."""

    @property
    def poll_s(self) -> float:
        """Seconds to wait before a stream without new data is read again."""

    def streams(self, run: str) -> Sequence[Stream]:
        """Return the log streams that exist by now, ordered by task and rank."""


@runtime_checkable
class SupportsLogTimes(Protocol):
    """A client that knows when each line of a log was printed."""

    def read_timed(self, stream: Stream, position: str | None) -> TimedChunk:
        """Return what `read` of *stream*, which is one of `streams`, returns, with its times."""


@runtime_checkable
class SupportsOutputs(Protocol):
    """A client that can read the outputs of jobs."""

    def outputs(self, run: str) -> Sequence[OutputFile]:
        """Return every file saved so far, ordered by output, task, rank and path."""


@runtime_checkable
class SupportsRunMounts(Protocol):
    """A provider whose jobs can read what other runs have saved, in place.

    Without it, and where two jobs have different stores, outputs are copied by this machine.
    """

    def saves_place(self, spec: Spec, facts: Any) -> str | None:
        """Return a name for the store that the job saves to; None if they cannot read other runs' saves.

        Jobs of this and of other providers for which it is equal read each other's saves at the same keys.
        """


@runtime_checkable
class SupportsParents(Protocol):
    """A provider whose service starts a job when others have ended, so that no client has to wait for them."""

    conditions: Collection[str]
    """Which of `succeeded`, `failed` and `ended` the service knows."""
    most_parents: int
    """How many runs a job can wait for; a client waits for the others."""

    def waiting_place(self, spec: Spec, facts: Any) -> str | None:
        """Return a name for the queue, cluster or machine of a job; None if it cannot wait for other jobs.

        `plan` is called with `Facts.parents` for jobs with an equal name.
        """

    def tells_end(self, spec: Spec, condition: str) -> bool:
        """Return whether the service says that a job of *spec* has ended as *condition* says if runspec does."""

    def has_job_per_task(self, spec: Spec) -> bool:
        """Return whether each task of *spec* is one job of an array, for which that of another array can wait."""


@runtime_checkable
class SupportsPlaces(Protocol):
    """A client that knows where the logs and the outputs of a run are."""

    def places(self, run: str) -> Places:
        """Return the places of *run*, which need not exist yet. Must send no request."""


@runtime_checkable
class SupportsUsage(Protocol):
    """A client of a service whose jobs sample what they use."""

    def usage(self, run: str, most: int | None) -> Usage:
        """Return the newest record of each node of *run*, of the first *most* nodes only if that is given.

        Empty for a run that does not exist or has no samples. `usage.read_usage` does what is the same in all stores.
        Raises the errors of `Client.state`.
        """


@runtime_checkable
class SupportsPublishing(Protocol):
    """A client that copies saved outputs to plain names, which other tools can read, when a run has ended."""

    def publish(self, run: str) -> Sequence[str]:
        """Copy the newest saves to their plain names, as far as the agents of the nodes have not done so.

        Called only when *run* will make no further attempt. `saved_outputs.publish` does what is the same in all
        stores; the store copies by itself, and the note is written last, so that a later call completes one that was
        killed. Return a line for each name that the store does not allow. Raises the errors of `Client.call`.
        """


@runtime_checkable
class SupportsTaskStop(Protocol):
    """A client that can end single tasks of a sweep while the others go on."""

    def stop(self, run: str, tasks: Collection[int]) -> None:
        """Request the end of *tasks* of *run*; called again until they have ended, and does nothing for those.

        A task that waits must not start any more. A task that runs is asked to end and not attempted again, and its
        outputs are saved. In `state` the nodes of these tasks are CANCELLED, and the run has SUCCEEDED when its other
        tasks have; a run whose tasks were all stopped is CANCELLED.
        """


Submits = Callable[[str], Sequence[Request]]  # of an operation


@runtime_checkable
class SupportsRelease(Protocol):
    """A client whose elastic jobs can give nodes back while they run, and ask for them again."""

    def release(
        self, run: str, away: Collection[Seat], back: Collection[Seat], submits: Submits
    ) -> Released:
        """Have the nodes *away* of *run* leave, and those of *back* come back.

        The store gets the record `released/INDEX` of each node, on which its agent saves and leaves, with
        `end_causes.RELEASED` as the cause. A node that waits for a machine waits no more, and none is started by
        itself. In `state` such a node is CANCELLED, with `end_causes.AWAY` as the reason, and no failure of the run.
        A node of *back* that has not left yet is returned as leaving, and stays away until a later call. Called again
        until none is leaving; what was done is not done again. With no nodes it changes nothing, and returns as away
        also nodes that an interrupted call has brought back in part: another machine has no record of it.

        A service that cannot start nodes again says so in `Released.never_back`, and is never asked for *back*.

        *submits* returns the requests of the run's plan with an operation, filled in, for services that need a new
        request for a node that comes back.
        """


@runtime_checkable
class SupportsReconcile(Protocol):
    """A client that has to send requests about a run after it was submitted, which `find` and `state` never do."""

    def reconcile(self, run: str) -> Sequence[str]:
        """End what *run* does not need, such as a second job of it, and record what its service will forget.

        Count tasks for `max_failed` that have failed for good and whose agents were killed before they could.

        Called after a lost reply, repeatedly while a run is followed or cancelled, and by the command `status`. Must
        send few requests if there is nothing to do, and do nothing for a run that does not exist. Return a line for
        each thing that was ended or started again. Raises the errors of `Client.call`.
        """


@runtime_checkable
class SupportsProgress(Protocol):
    """A client that reports progress during requests that may take minutes."""

    def listen(self, tell: Callable[[str], None]) -> None:
        """Set *tell* as the function that later requests call with a line for the user."""


@runtime_checkable
class SupportsRehydration(Protocol):
    """A client that can reuse the answers of steps that another process carried out."""

    def remember(self, run: str, answers: Mapping[str, Response]) -> None:
        """Set the answers of the steps of *run*, by step id.

        Called before any request about a run that another process started.
        """


@runtime_checkable
class SupportsMembershipChanges(Protocol):
    """A client that can run elastic jobs, whose nodes join and leave."""

    def changes(self, run: str) -> Sequence[MembershipChange]:
        """Return the membership changes so far, ordered by task and generation.

        Called only for elastic jobs. If there are very many, the last ones are enough. Raises the errors of
        `Client.state`.
        """


@runtime_checkable
class SupportsOrphans(Protocol):
    """A client that finds orphans by their names and tags."""

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterable[Orphan]:
        """Return the resources that neither belong to *runs* nor have a name in *made*, in the order to delete them.

        *made* contains every text in the plans on record, and so the names of all their resources.
        """


@runtime_checkable
class SupportsEndById(Protocol):
    """A provider that can end a run of which only the id is known, because its record is damaged."""

    def end_by_id(self, run: str, texts: Collection[str], *, delete: bool) -> bool:
        """End *run*, wait until it has ended, and with *delete* delete all that was made for it alone.

        *texts* are those of its plan, or nothing if it cannot be read. Return whether anything of the run was there.
        Raises the errors of `Client.call`.
        """


@runtime_checkable
class SupportsAdoption(Protocol):
    """A client that can write the state of each run to the store, so that another machine can adopt the run."""

    def keep_state(self, run: str, content: bytes) -> None:
        """Write *content*, the state of *run*, to the store; it replaces an earlier one.

        Called right before the first step of *run* that has an undo; the undo must delete the state too. Raises the
        errors of `Client.call`.
        """

    def kept_state(self, run: str) -> bytes | None:
        """Return the state of *run*, or None. Anyone who may write to the store may have changed it."""

    def kept_runs(self) -> Sequence[str]:
        """Return the names of all runs with data in the store, in any order."""


@runtime_checkable
class SupportsExec(Protocol):
    """A client that can start a program where a node of a live run works."""

    def shell(
        self, run: str, task: int, rank: int, words: Sequence[str], *, terminal: bool
    ) -> ExecSpec:
        """Return how to start *words*, or a shell if it is empty, in the node's folder, environment and container.

        *terminal* says whether standard input is a terminal. Called when `state` says that *run* is running. The exit
        code must be that of the command. The notes name each secret of the job that the command does not get. Raises
        Unavailable, with the reason, if the node does not run.
        """


@runtime_checkable
class SupportsPortForward(Protocol):
    """A client that can connect to a port of a node of a live run."""

    def tunnel(self, run: str, task: int, rank: int, port: int) -> Route:
        """Return a route to *port* of the node, without checking that a program listens there.

        Called again if the route does not work, because a later attempt may run on another machine. Raises Unavailable,
        with the reason, if the node does not run.
        """


@runtime_checkable
class SupportsAccessHints(Protocol):
    """A provider that says, before a client is opened, which of SupportsExec and SupportsPortForward it has."""

    @property
    def enters(self) -> Collection[str]:
        """The methods among `shell` and `tunnel` that its clients have."""


@runtime_checkable
class SupportsConda(Protocol):
    """A provider whose jobs can have the environment of `container.conda`; any other refuses such a spec.

    The lines of the file are `Facts.requirements`.
    """

    @property
    def builds_conda(self) -> Literal[True]: ...


@runtime_checkable
class SupportsServiceRanks(Protocol):
    """A provider whose service starts the processes of a job, and tells them their ranks by variables of its own.

    The core then gives no advice to replace variables of torchrun by `RUNSPEC_RANK` and the like.
    """

    @property
    def numbers_processes(self) -> Literal[True]: ...


@runtime_checkable
class SupportsPolicy(Protocol):
    """A provider whose service requires permissions."""

    def policy(self, steps: Iterable[Step], options: Any, *, of_job: bool) -> Mapping[str, Any]:
        """Return the least permissions for carrying out *steps*, in the form that the service uses.

        If *of_job* is true, return the permissions that the job itself needs instead.
        """


class SetupClient(Protocol):
    """Sends the requests of a setup. The methods are those of `Client`, and raise the same errors."""

    def call(self, request: Request) -> Response:
        """Send *request*. One that undoes a step must do nothing if there is nothing to undo.

        It must delete nothing that another setup or a person made, and raises Conflict for a resource that holds what
        users store.
        """

    def find(self, step: Step) -> Response | None:
        """Return the answer that *step* would have given, if its resource exists; values of *step* may be unknown.

        Raises Conflict, with what to set instead, if a resource of somebody else has its name.
        """

    def settled(self, step: Step) -> bool:
        """Return whether the next step can use the resource of *step*."""

    def check_undo(
        self, requests: Sequence[Request], together: Collection[str], *, with_data: bool
    ) -> Sequence[Conflict]:
        """Return why *requests*, which undo what is left of a setup, would delete what somebody needs; () if none does.

        Called before the first of them is sent, so that an undo that cannot end does not begin. It only reads. What
        jobs have stored counts unless *with_data*; what jobs of other machines use always does. *together* are the
        setups that are undone at once, by name, the latest one first: a later one may have made a part again.
        """


@runtime_checkable
class SupportsSetup(Protocol):
    """A provider that can make what an account lacks before its first job, such as storage, roles and a network."""

    @property
    def setup_model(self) -> type[Options]:
        """The `options_model`, and what only `setup` can be told. Settings that are there are used as they are."""

    def survey_account(self, options: Any) -> Mapping[str, Any]:
        """Return what a setup depends on besides *options*, as JSON values; it only reads.

        Must not depend on what a setup makes. Raises the errors of `Client.call`, and UsageError for a setting that
        is missing.
        """

    def plan_setup(self, options: Any, survey: Mapping[str, Any], setup: str) -> Setup:
        """Return what the setup with the name *setup* makes. It is pure.

        All steps have `Scope.SITE`. Names of resources do not contain *setup*; resources are marked with it, so that
        undoing deletes nothing else.
        """

    def connect_setup(self, options: Any, survey: Mapping[str, Any], setup: str) -> SetupClient:
        """Return the client of a setup. Raises CredentialsError or Unavailable."""

    def export_setup(self, setup: Setup) -> Exported:
        """Return a file with which another tool of the service makes the same setup, and how to use it. It is pure.

        A later setup finds what was made with it. In the notes, FILE and SETTINGS stand for the path of the file and
        for what this setup was told.
        """

    def setup_policy(self, options: Any) -> Mapping[str, Any]:
        """Return the least permissions for every request of a setup and of its undoing. Nothing is asked."""


@runtime_checkable
class SupportsProfileTemplate(Protocol):
    """A provider that needs a profile, and has a template for it."""

    def first_profile(self) -> str:
        """Return the template, the text of a new `runspec-profile.yaml`."""


@runtime_checkable
class SupportsEmulation(Protocol):
    """A provider with emulators of its service, which run on this machine."""

    @property
    def name(self) -> str: ...

    def rehearse(
        self, options: Mapping[str, Any], folder: Path, engine: str | None
    ) -> AbstractContextManager[Emulation]:
        """Start the emulators on the loopback interface, with their files in *folder*; stop them at the end.

        *options* are those of the profile. *engine* is what runs the jobs, `process` or `podman`; with None, the
        provider chooses. Raises Unavailable if a program that they need is missing.
        """


@runtime_checkable
class SupportsEmulatedContainers(Protocol):
    """A provider whose emulators have containers or shared folders of files that a job expects, and no step uploads."""

    def fill(self, stage: Emulation, container: str, folder: Path) -> None:
        """Copy the files of *folder* into *container*. Raises UsageError if the job has no such container."""


@runtime_checkable
class SupportsExport(Protocol):
    """A provider that can write plans as files of another tool for the same service."""

    def export(self, steps: Sequence[Step]) -> Exported:
        """Return files that make another tool do what *steps* do. They contain no secrets."""


@runtime_checkable
class SupportsDoctor(Protocol):
    """A provider that can check whether jobs will run, before anything is made."""

    def examine(self, options: Any) -> Iterable[Finding]:
        """Return the findings, the most important first. A failed check is a finding, and never raises."""


@runtime_checkable
class SupportsJobDoctor(Protocol):
    """A provider that can check whether one job will run, before anything is made for it."""

    def examine_job(self, spec: Spec, facts: Any, steps: Sequence[Step]) -> Iterable[Finding]:
        """Return the findings about the job of *spec*, whose plan has *steps*, the most important first.

        A finding is a problem only if it stops this job; what could not be checked is `unknown`. A failed check is a
        finding, and never raises.
        """


@runtime_checkable
class SupportsDoctorPolicy(Protocol):
    """A provider whose doctor needs permissions that `apply` does not need."""

    def doctor_policy(self, options: Any) -> Mapping[str, Any]:
        """Return the least permissions for `runspec doctor`, in the form that the service uses."""


@runtime_checkable
class SupportsNodeDoctor(Protocol):
    """A provider that can run checks on a machine of the service, which may cost money."""

    def examine_node(self, options: Any) -> Iterable[Finding]:
        """Return the findings, like `SupportsDoctor`. Called only for `doctor --node`."""


@runtime_checkable
class SupportsProbes(Protocol):
    """A provider that can check its assumptions about the service in a real account."""

    def probes(self, options: Any) -> Sequence[Probe]:
        """Return the probes in the order to run them, without any request. `docs/unverified.md` lists them."""
