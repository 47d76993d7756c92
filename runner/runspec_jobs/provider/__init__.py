"""The one door for providers: everything a provider may import, and what it promises in return.

A provider has two halves. The `Provider` is pure: it checks a spec and turns it into a plan,
touching no network, clock, environment or disk. Its `Client` is the other half: it sends the
requests of a plan. Whatever a provider or a client can do beyond that is a protocol with one
method, asked for with isinstance: the `Supports...` family of `capabilities`.
`runspec_jobs.testing` asks every promise made here of every registered provider.
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
from runspec_jobs.provider.capabilities import (
    SupportsAccessHints,
    SupportsAdoption,
    SupportsDiscovery,
    SupportsDoctor,
    SupportsEmulation,
    SupportsExec,
    SupportsExport,
    SupportsImport,
    SupportsLogs,
    SupportsMembershipChanges,
    SupportsNodeDoctor,
    SupportsOrphans,
    SupportsOutputs,
    SupportsPolicy,
    SupportsPortForward,
    SupportsProbes,
    SupportsProfileTemplate,
    SupportsProgress,
    SupportsPublishing,
    SupportsRehydration,
    SupportsTaskStop,
    SupportsUpload,
)
from runspec_jobs.provider.ec2_types import EC2_TYPES, Ec2Type
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
    blob_name,
    job_record,
    kept_outputs,
    reach,
    read_record,
)
from runspec_jobs.provider.paths import home as state_folder
from runspec_jobs.provider.payload import (
    boot_py as inside_boot,
    inside_sh_file as inside_sh,
    inside_signed,
    zipapp_bytes as inside_zipapp,
)
from runspec_jobs.provider.probe import Observation, Probe, ProbeContext, Verdict
from runspec_jobs.provider.root_cause import blamed
from runspec_jobs.provider.saved_outputs import Copy, Publication, read_saved_outputs, unpublished
from runspec_jobs.provider.signed_urls import Line, signed_lines, signed_problems
from runspec_jobs.provider.tar_stream import tar_blocks, tar_bytes
from runspec_jobs.provider.types import (
    SECRET_SOURCE,
    Address,
    Attempt,
    Bundle,
    Chunk,
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
    Progress,
    Request,
    Response,
    Route,
    Scope,
    SecretSource,
    Source,
    State,
    Status,
    StdioProxy,
    Step,
    Stream,
    changes_of,
)
from runspec_jobs.record_formats import check as check_format
from runspec_jobs.spec.base import Model
from runspec_jobs.spec.field_marks import Anyone, User
from runspec_jobs.spec.model import Capacity, Launch, Mount, Nodes, Output, Spec
from runspec_jobs.spec.placeholders import PLACE, argv, literal, shell_script, tasks, variable
from runspec_jobs.spec.python_versions import python_fits, python_version
from runspec_jobs.spec.types import (
    Bytes,
    Key,
    Positive,
    Seconds,
    SecretName,
    Truth,
    Whole,
    Word,
    matching,
)

__all__ = [
    "EC2_TYPES",
    "NOT_NEEDED",
    "OUTPUT_TAR",
    "PLACE",
    "SECRET_SOURCE",
    "Address",
    "AlreadyExists",
    "Anyone",
    "Attempt",
    "Bundle",
    "Bytes",
    "Capacity",
    "Chunk",
    "Client",
    "Conflict",
    "Copy",
    "CredentialsError",
    "Ec2Type",
    "Emulation",
    "ExecSpec",
    "Exported",
    "Facts",
    "File",
    "Finding",
    "ForeignFile",
    "Forward",
    "Imported",
    "Key",
    "Launch",
    "Line",
    "LocalSecret",
    "MembershipChange",
    "Model",
    "Mount",
    "NoAnswer",
    "NodeRef",
    "NodeStatus",
    "Nodes",
    "Observation",
    "Options",
    "Orphan",
    "Output",
    "OutputFile",
    "Path",
    "Positive",
    "Probe",
    "ProbeContext",
    "Problem",
    "Progress",
    "Provider",
    "Publication",
    "RemoteError",
    "Request",
    "Response",
    "Route",
    "RunspecError",
    "Scope",
    "Seconds",
    "SecretName",
    "SecretSource",
    "Source",
    "Spec",
    "State",
    "Status",
    "StdioProxy",
    "Step",
    "Stream",
    "SupportsAccessHints",
    "SupportsAdoption",
    "SupportsDiscovery",
    "SupportsDoctor",
    "SupportsEmulation",
    "SupportsExec",
    "SupportsExport",
    "SupportsImport",
    "SupportsLogs",
    "SupportsMembershipChanges",
    "SupportsNodeDoctor",
    "SupportsOrphans",
    "SupportsOutputs",
    "SupportsPolicy",
    "SupportsPortForward",
    "SupportsProbes",
    "SupportsProfileTemplate",
    "SupportsProgress",
    "SupportsPublishing",
    "SupportsRehydration",
    "SupportsTaskStop",
    "SupportsUpload",
    "Truth",
    "Unavailable",
    "UsageError",
    "User",
    "Verdict",
    "Whole",
    "Word",
    "argv",
    "blamed",
    "blob_name",
    "changes_of",
    "check_format",
    "did_you_mean",
    "elastic_changes",
    "elastic_end",
    "elastic_status",
    "inside_boot",
    "inside_sh",
    "inside_signed",
    "inside_zipapp",
    "job_record",
    "kept_outputs",
    "literal",
    "matching",
    "nodes_each",
    "python_fits",
    "python_version",
    "reach",
    "read_record",
    "read_saved_outputs",
    "seat",
    "seated",
    "seats_of",
    "shell_script",
    "signed_lines",
    "signed_problems",
    "state_folder",
    "tar_blocks",
    "tar_bytes",
    "task_of",
    "tasks",
    "tasks_in_all",
    "unpublished",
    "variable",
]


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

    def call(self, request: Request) -> Response:
        """Send *request* and give its answer, a mapping of JSON values.

        Raises RemoteError when the service definitely refused (nothing was made), and NoAnswer
        when it may or may not have been carried out. A request that undoes must be content
        when there is nothing to undo. AlreadyExists is for a refusal because of something of that
        name that `find` may not see: it has just been made elsewhere, or is being taken away.
        """

    def find(self, step: Step) -> Response | None:
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
