"""The interface for providers: everything that a provider may import, and the contract that it must fulfil.

A provider has two parts. The `Provider` is pure: it checks a spec and turns it into a plan, without using the network,
the clock, the environment or the disk. Its `Client` sends the requests of a plan. Every optional feature of a provider
or a client is a protocol with one method, which the core looks for with isinstance: the `Supports...` protocols of
`capabilities`. The tests in `runspec_jobs.testing` check the contract for every registered provider.
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
    RemoteError,
    RunspecError,
    Unavailable,
    UsageError,
)
from runspec_jobs.machines.choice import (
    GPU_MULTIPLE,
    ChosenMachine,
    MachineRequest,
    choose as choose_machines,
    chosen_machine,
    listed_machine,
    price as machine_price,
)
from runspec_jobs.machines.estimate import (
    KEPT_H,
    Offer,
    StandingCost,
    alternatives as other_machines,
    price_note,
)
from runspec_jobs.machines.machine import (
    Catalogue,
    Machine,
    make_unknown as unknown_machine,
    read as read_catalogue,
)
from runspec_jobs.machines.price_list import NOT_READ, ListedPrices, PriceList
from runspec_jobs.machines.service import MONTH_H, ServicePrice, read_services, service_price
from runspec_jobs.machines.shortfall import explain_shortfall as machine_shortfall, other_regions
from runspec_jobs.machines.usage import Usage, read_usage
from runspec_jobs.provider.capabilities import (
    SupportsAccessHints,
    SupportsAdoption,
    SupportsConda,
    SupportsDiscovery,
    SupportsDoctor,
    SupportsEmulatedContainers,
    SupportsEmulation,
    SupportsEndById,
    SupportsExec,
    SupportsExport,
    SupportsForeignSettings,
    SupportsImport,
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
    SupportsRunMounts,
    SupportsServiceRanks,
    SupportsTaskStop,
    SupportsUpload,
    SupportsUsage,
)
from runspec_jobs.provider.elastic_tasks import (
    NOT_NEEDED,
    elastic_changes,
    elastic_end,
    elastic_status,
    nodes_each,
    seat,
    seated,
    seats_of,
    task_of,
    tasks_in_all,
)
from runspec_jobs.provider.job_manifest import (
    OUTPUT_TAR,
    PARTED_FORMAT,
    blob_name,
    digest_line,
    job_record,
    kept_outputs,
    limit_s,
    reach,
    read_record,
    resumed,
    saves as saves_mount,
    uploads,
)
from runspec_jobs.provider.node_ends import (
    NodeEnd,
    NodeEnds,
    contradicted,
    overdue,
    unproven,
    unrecorded,
)
from runspec_jobs.provider.paths import find_home as state_folder
from runspec_jobs.provider.payload import (
    pack_agent,
    read_inside_sh,
    signed_scripts,
    strip_boot,
)
from runspec_jobs.provider.probe import BenchProbe, Observation, Probe, ProbeContext, Verdict
from runspec_jobs.provider.registry_login import RegistryOptions, docker_auth, registry_of
from runspec_jobs.provider.saved_outputs import Copy, publish, read_saved_outputs
from runspec_jobs.provider.signed_urls import (
    Line,
    proves_end,
    signed_job_lines,
    signed_problems,
)
from runspec_jobs.provider.spec_checks import (
    lacking,
    literal_paths,
    not_in_profile,
    secret_problems,
    too_many_tasks,
)
from runspec_jobs.provider.steps import (
    Request,
    Response,
    Scope,
    Step,
    answer_mark,
    content_name,
    in_turn,
    requests_of,
    short_hash,
)
from runspec_jobs.provider.streams.log_streams import (
    Chunk,
    LogIndex,
    Stream,
    TimedChunk,
    timed_chunk,
)
from runspec_jobs.provider.streams.object_streams import (
    BodyReader,
    HashedPart,
    RangedReader,
    TimedStream,
)
from runspec_jobs.provider.streams.tar_stream import tar_blocks, tar_bytes
from runspec_jobs.provider.types import (
    SECRET_SOURCE,
    Address,
    Attempt,
    Bundle,
    Emulation,
    ExecSpec,
    Exported,
    Facts,
    File,
    Finding,
    ForeignFile,
    Forward,
    Imported,
    LocalSecret,
    MembershipChange,
    NodeRef,
    NodeStatus,
    Options,
    Orphan,
    OutputFile,
    Parent,
    Places,
    Progress,
    Resume,
    Route,
    SavedOutput,
    SecretSource,
    Source,
    State,
    Status,
    StdioProxy,
    blamed,
    changes_of,
)
from runspec_jobs.record_formats import check as check_format
from runspec_jobs.spec.field_marks import Anyone, User
from runspec_jobs.spec.interpreter import Interpreter, interpreter
from runspec_jobs.spec.model import Capacity, Launch, Mount, Nodes, Output, Spec
from runspec_jobs.spec.placeholders import PLACE, argv, literal, shell_script, tasks, variable
from runspec_jobs.spec.python_versions import python_fits, python_version
from runspec_jobs.spec.types import (
    Bytes,
    Key,
    Model,
    Positive,
    Seconds,
    SecretName,
    Truth,
    Whole,
    Word,
    text_like,
)

__all__ = [
    "GPU_MULTIPLE",
    "KEPT_H",
    "MONTH_H",
    "NOT_NEEDED",
    "NOT_READ",
    "OUTPUT_TAR",
    "PARTED_FORMAT",
    "PLACE",
    "SECRET_SOURCE",
    "Address",
    "AlreadyExists",
    "Anyone",
    "Attempt",
    "BenchProbe",
    "BodyReader",
    "Bundle",
    "Bytes",
    "Capacity",
    "Catalogue",
    "ChosenMachine",
    "Chunk",
    "Client",
    "Conflict",
    "Copy",
    "CredentialsError",
    "Emulation",
    "ExecSpec",
    "Exported",
    "Facts",
    "File",
    "Finding",
    "ForeignFile",
    "Forward",
    "HashedPart",
    "Imported",
    "Interpreter",
    "Key",
    "Launch",
    "Line",
    "ListedPrices",
    "LocalSecret",
    "LogIndex",
    "Machine",
    "MachineRequest",
    "MembershipChange",
    "Model",
    "Mount",
    "NoAnswer",
    "NodeEnd",
    "NodeEnds",
    "NodeRef",
    "NodeStatus",
    "Nodes",
    "Observation",
    "Offer",
    "Options",
    "Orphan",
    "Output",
    "OutputFile",
    "Parent",
    "Path",
    "Places",
    "Positive",
    "PriceList",
    "Probe",
    "ProbeContext",
    "Problem",
    "Progress",
    "Provider",
    "RangedReader",
    "RegistryOptions",
    "RemoteError",
    "Request",
    "Response",
    "Resume",
    "Route",
    "RunspecError",
    "SavedOutput",
    "Scope",
    "Seconds",
    "SecretName",
    "SecretSource",
    "ServicePrice",
    "Source",
    "Spec",
    "StandingCost",
    "State",
    "Status",
    "StdioProxy",
    "Step",
    "Stream",
    "SupportsAccessHints",
    "SupportsAdoption",
    "SupportsConda",
    "SupportsDiscovery",
    "SupportsDoctor",
    "SupportsEmulatedContainers",
    "SupportsEmulation",
    "SupportsEndById",
    "SupportsExec",
    "SupportsExport",
    "SupportsForeignSettings",
    "SupportsImport",
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
    "SupportsRunMounts",
    "SupportsServiceRanks",
    "SupportsTaskStop",
    "SupportsUpload",
    "SupportsUsage",
    "TimedChunk",
    "TimedStream",
    "Truth",
    "Unavailable",
    "Usage",
    "UsageError",
    "User",
    "Verdict",
    "Whole",
    "Word",
    "answer_mark",
    "argv",
    "blamed",
    "blob_name",
    "changes_of",
    "check_format",
    "choose_machines",
    "chosen_machine",
    "content_name",
    "contradicted",
    "did_you_mean",
    "digest_line",
    "docker_auth",
    "elastic_changes",
    "elastic_end",
    "elastic_status",
    "in_turn",
    "interpreter",
    "job_record",
    "kept_outputs",
    "lacking",
    "limit_s",
    "listed_machine",
    "literal",
    "literal_paths",
    "machine_price",
    "machine_shortfall",
    "nodes_each",
    "not_in_profile",
    "other_machines",
    "other_regions",
    "overdue",
    "pack_agent",
    "price_note",
    "proves_end",
    "publish",
    "python_fits",
    "python_version",
    "reach",
    "read_catalogue",
    "read_inside_sh",
    "read_record",
    "read_saved_outputs",
    "read_services",
    "read_usage",
    "registry_of",
    "requests_of",
    "resumed",
    "saves_mount",
    "seat",
    "seated",
    "seats_of",
    "secret_problems",
    "service_price",
    "shell_script",
    "short_hash",
    "signed_job_lines",
    "signed_problems",
    "signed_scripts",
    "state_folder",
    "strip_boot",
    "tar_blocks",
    "tar_bytes",
    "task_of",
    "tasks",
    "tasks_in_all",
    "text_like",
    "timed_chunk",
    "too_many_tasks",
    "unknown_machine",
    "unproven",
    "unrecorded",
    "uploads",
    "variable",
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
