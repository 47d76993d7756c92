"""The interface for providers: everything that a provider may import, and the contract that it must fulfil.

A provider has two parts. The `Provider` is pure: it checks a spec and turns it into a plan, without using the network,
the clock, the environment or the disk. Its `Client` sends the requests of a plan. Every optional feature of a provider
or a client is a protocol with one method, which the core looks for with isinstance: the `Supports...` protocols of
`capabilities`. The tests in `runspec_jobs.testing` check the contract for every registered provider.

The names of this module are what every provider needs. What only some need is in modules beside it:

* `settings`: types for `Options` and their blocks
* `commands`: what a job runs, its tasks and its Python
* `machines`: machines, prices, and the rule of choice
* `spec_checks`: problems that several providers find
* `payload`, `job_manifest`, `signed_urls`: the agent, the record that it reads, and jobs without it
* `saved_outputs`, `streams`: what jobs have saved, and streams of logs, objects and tar files
* `elastic_tasks`, `node_ends`: the state of elastic jobs, and proofs of how nodes have ended
* `registry_login`, `probe`: logins to registries, and tests of assumptions about a service
* `importing`: reading what was written for other tools or providers, and writing specs
* `types`: what the rarer capabilities exchange, such as routes to nodes and imported files
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from runspec_jobs.diagnostics.problem import Path, Problem, did_you_mean
from runspec_jobs.errors import (
    AlreadyExists,
    Conflict,
    CredentialsError,
    NoAnswer,
    OtherFormat,
    RemoteError,
    RunspecError,
    Unavailable,
    UsageError,
)
from runspec_jobs.provider.capabilities import (
    SetupClient,
    Submits,
    SupportsAccessHints,
    SupportsAdoption,
    SupportsConda,
    SupportsDiscovery,
    SupportsDoctor,
    SupportsDoctorPolicy,
    SupportsEmulatedContainers,
    SupportsEmulation,
    SupportsEndById,
    SupportsExec,
    SupportsExport,
    SupportsJobDoctor,
    SupportsLogs,
    SupportsLogTimes,
    SupportsMembershipChanges,
    SupportsNodeDoctor,
    SupportsOffer,
    SupportsOrphans,
    SupportsOutputs,
    SupportsParents,
    SupportsPlaces,
    SupportsPolicy,
    SupportsPortForward,
    SupportsPrices,
    SupportsProbes,
    SupportsProfileTemplate,
    SupportsProgress,
    SupportsPublishing,
    SupportsReconcile,
    SupportsRehydration,
    SupportsRelease,
    SupportsRunMounts,
    SupportsServiceRanks,
    SupportsSetup,
    SupportsTaskStop,
    SupportsUpload,
    SupportsUsage,
)
from runspec_jobs.provider.paths import find_home as state_folder
from runspec_jobs.provider.steps import (
    Request,
    Response,
    Scope,
    Setup,
    Step,
    answer_mark,
    content_name,
    in_turn,
    requests_of,
    short_hash,
)
from runspec_jobs.provider.types import (
    Attempt,
    Bundle,
    Facts,
    File,
    Finding,
    MembershipChange,
    NodeStatus,
    Options,
    Orphan,
    OutputFile,
    Parent,
    Places,
    Progress,
    Released,
    Resume,
    SavedOutput,
    Seat,
    Source,
    State,
    Status,
)
from runspec_jobs.record_formats import check as check_format
from runspec_jobs.spec.model import Launch, Spec
from runspec_jobs.spec.models.files import Mount, Output
from runspec_jobs.spec.models.machines import Capacity

__all__ = [
    "AlreadyExists",
    "Attempt",
    "Bundle",
    "Capacity",
    "Client",
    "Conflict",
    "CredentialsError",
    "Facts",
    "File",
    "Finding",
    "Launch",
    "MembershipChange",
    "Mount",
    "NoAnswer",
    "NodeStatus",
    "Options",
    "Orphan",
    "OtherFormat",
    "Output",
    "OutputFile",
    "Parent",
    "Path",
    "Places",
    "Problem",
    "Progress",
    "Provider",
    "Released",
    "RemoteError",
    "Request",
    "Response",
    "Resume",
    "RunspecError",
    "SavedOutput",
    "Scope",
    "Seat",
    "Setup",
    "SetupClient",
    "Source",
    "Spec",
    "State",
    "Status",
    "Step",
    "Submits",
    "SupportsAccessHints",
    "SupportsAdoption",
    "SupportsConda",
    "SupportsDiscovery",
    "SupportsDoctor",
    "SupportsDoctorPolicy",
    "SupportsEmulatedContainers",
    "SupportsEmulation",
    "SupportsEndById",
    "SupportsExec",
    "SupportsExport",
    "SupportsJobDoctor",
    "SupportsLogTimes",
    "SupportsLogs",
    "SupportsMembershipChanges",
    "SupportsNodeDoctor",
    "SupportsOffer",
    "SupportsOrphans",
    "SupportsOutputs",
    "SupportsParents",
    "SupportsPlaces",
    "SupportsPolicy",
    "SupportsPortForward",
    "SupportsPrices",
    "SupportsProbes",
    "SupportsProfileTemplate",
    "SupportsProgress",
    "SupportsPublishing",
    "SupportsReconcile",
    "SupportsRehydration",
    "SupportsRelease",
    "SupportsRunMounts",
    "SupportsServiceRanks",
    "SupportsSetup",
    "SupportsTaskStop",
    "SupportsUpload",
    "SupportsUsage",
    "Unavailable",
    "UsageError",
    "answer_mark",
    "check_format",
    "content_name",
    "did_you_mean",
    "in_turn",
    "requests_of",
    "short_hash",
    "state_folder",
]


class Provider(Protocol):
    """The pure part of a provider. Planning twice with equal arguments gives equal plans, without a network."""

    @property
    def name(self) -> str:
        """The name of the provider, as the field `provider` of a spec has it."""

    @property
    def options_model(self) -> type[Options]:
        """The model of this provider's block in the profile and in `providers:` of a spec."""

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        """Return a problem, with a hint, for everything in *spec* that this provider cannot do.

        Must not raise for any valid spec. Called before every plan; if it returns an error, nothing is planned.
        """

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        """Return the steps that run *spec* as *run*, in order.

        Step ids are unique. The name of every resource that a step with `Scope.RUN` makes contains *run*. The name of
        every resource that a step with `Scope.SITE` makes is derived from its content, and does not contain *run*.
        """

    def connect(self, facts: Facts) -> Client:
        """Return a client. SDKs are imported here, and not before.

        Raises CredentialsError or Unavailable.
        """


class Client(Protocol):
    """The part of a provider that sends requests. It never repeats a request by itself."""

    def call(self, request: Request) -> Response:
        """Send *request* and return its answer, a mapping of JSON values.

        Raises RemoteError if the service definitely refused, so that nothing was made, and NoAnswer if the request may
        or may not have been carried out. Raises AlreadyExists if the service refused because the name is taken, even
        by a resource that `find` may not see because another machine just made it, or it is being deleted. A request
        that undoes a step must succeed if there is nothing to undo.
        """

    def find(self, step: Step) -> Response | None:
        """Return the answer that *step* would have given, if it was already done.

        Return None if it was not done, or if its resource is being deleted. Raises Conflict if a different resource
        has its name. Must change nothing; see `SupportsReconcile`.
        """

    def settled(self, step: Step) -> bool:
        """Return whether the resource of *step* can be used; called until it is true before the next step.

        Raises RemoteError if it will never be usable.
        """

    def state(self, run: str) -> Status:
        """Return the status of *run*, whose state is GONE if the service has no such job.

        Must change nothing, like every method that reads; see `SupportsReconcile`.
        """

    def cancel(self, run: str) -> None:
        """Request the end of every job of *run* and of all its processes; do nothing if there are none.

        Called at least once, also for a run that has ended, and then until its state is terminal. A job of *run* that
        was submitted before and has not started must not start any more.
        """
