"""The formats of errors, of problems in files, and of plans."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from runspec_jobs.api.chains import Condition
from runspec_jobs.api.jobs import Scope
from runspec_jobs.cli.json_formats.base import Document, Part


class Error(Document):
    """The command failed with this error. No other document follows."""

    format: Literal["runspec.error/v1"]
    error: str = Field(description="What is wrong, for people.")
    hint: str | None = Field(description="What to do, for people.")
    exit_code: int = Field(description="The exit code of the command.")


class Diagnostic(Document):
    """One problem of a spec or a profile. Several are printed as one document in each line."""

    format: Literal["runspec.diagnostic/v1"]
    file: str
    line: int = Field(description="Counts from 1; 0 if the problem has no position.")
    column: int = Field(description="Counts from 1; 0 if the problem has no position.")
    length: int = Field(description="How many characters are wrong.")
    path: str = Field(description="The field, such as `cluster.nodes`; empty for the whole file.")
    what: str = Field(description="What is wrong, for people.")
    hint: str | None = Field(description="What to do, for people.")
    severity: Literal["error", "note"]


class Request(Part):
    """One request. A mapping whose only key begins with `$` stands for a value that is not known yet."""

    service: str
    operation: str
    params: dict[str, Any]


class Step(Part):
    """The request that makes a resource, and the one that deletes it."""

    id: str
    title: str = Field(description="What the step does, for people.")
    scope: Scope
    do: Request
    undo: Request | None = Field(description="null if there is nothing to delete.")
    settle_s: float = Field(
        default=0.0,
        description="For how many seconds a new resource may be missing in lists of the service; absent if 0.",
    )


class PricedMachine(Part):
    """A machine that the job may get."""

    name: str
    usd_hour: float | None = Field(description="null if the price is unknown.")
    why: str = Field(description="Why it is chosen, for people.")
    near_usd_hour: float | None = Field(
        description="The price in near_region, if the price in its own region is unknown; null if both are."
    )
    near_region: str = Field(description="Empty if near_usd_hour is null.")
    spot_usd_hour: float | None = Field(
        description="The spot price of listed_on; null if it is unknown, or the job wants no spot machines."
    )
    gpus: str = Field(
        description="Number, type and memory of its GPUs, for people; empty if there are none or they are unknown."
    )


class StandingCost(Part):
    """What costs money while nothing runs."""

    what: str
    usd_hour: float | None = Field(description="null if it is unknown, or depends on what is kept.")
    usd_gb_month: float | None = Field(
        description="The price of a GB kept for a month; null if it is unknown, or there is no such price."
    )
    shared: bool = Field(description="Whether runspec destroy --shared ends it.")
    hours: float | None = Field(
        description="For how many hours it counts at least in standing_usd; null if it does not count."
    )
    near_usd_hour: float | None = Field(
        description="The price in near_region, if the price in its own region is unknown; null if both are."
    )
    near_region: str = Field(description="Empty if near_usd_hour is null.")


class Cost(Part):
    """What the job may cost, in USD on demand. The digest does not depend on it."""

    machines: list[PricedMachine] = Field(description="The first one is preferred.")
    alternatives: list[PricedMachine] = Field(description="The cheapest other machines.")
    at_once: int = Field(description="How many machines run at the same time at most.")
    fewest_at_once: int = Field(
        description="How many run at least, if nodes share machines or an elastic job is small."
    )
    least_usd_hour: float | None
    most_usd_hour: float | None
    bound_usd: float | None = Field(description="The most that all attempts can cost.")
    unbounded: str = Field(description="Why bound_usd is null, for people.")
    caveat: str = Field(description="What may exceed bound_usd, for people; empty if nothing may.")
    machine_hours: float | None = Field(
        description="The most hours of all nodes together; null without a timeout."
    )
    near_usd: float | None = Field(
        description="If a price is unknown: the most that the job can cost by the prices of near_region; else null."
    )
    near_region: str = Field(
        description="The nearest region with known prices; empty if near_usd is null."
    )
    standing_usd: float = Field(
        description="The cost of `standing` while the job runs, and for a day at least of what stays after it."
    )
    standing: list[StandingCost]
    catalogue: str = Field(description="The date and the region of the prices, for people.")
    spot_usd_hour: float | None = Field(
        description="Like most_usd_hour, by the spot prices of listed_on; null if the job wants no spot machines."
    )
    at_spot_usd: float | None = Field(
        description="Like bound_usd, by the spot prices of listed_on, which change: it is no limit."
    )
    listed_on: str = Field(
        description="The day on which runspec prices --update read the prices; empty if it did not."
    )


class Plan(Document):
    """All requests of a run, word for word."""

    format: Literal["runspec.plan/v1"]
    provider: str
    run: str = Field(description="The name of the run, with 000000 in place of its token.")
    digest: str = Field(description="The same for plans that differ only in the name of the run.")
    steps: list[Step]
    cost: Cost | None = Field(description="null if the provider charges nothing that is known.")


class Plans(Document):
    """The plans of a spec with `scaling`: one for each number of nodes."""

    format: Literal["runspec.plans/v1"]
    plans: list[Plan]


class PlannedJob(Part):
    """One job of a chain, as it is planned."""

    job: str
    needs: dict[str, Condition] = Field(description="The jobs that must have ended, and how.")
    why: str = Field(
        description="Why apply starts it again, for people; empty if it has no run, or nothing calls for that."
    )
    waits_by_service: list[str] = Field(
        description="Those of `needs` for which the service waits; for the others, the client does."
    )
    copied: list[str] = Field(
        description="Mounts whose files the client copies, because the jobs save to different stores."
    )
    plan: Plan


class ChainPlan(Document):
    """The plans of the jobs of a chain, each after those that it needs."""

    format: Literal["runspec.chain-plan/v1"]
    chain: str
    jobs: list[PlannedJob]


class Changed(Part):
    """One field in which two plans differ."""

    path: str
    before: Any = Field(description="null if the earlier plan lacks the field.")
    after: Any = Field(description="null if the plan lacks the field.")


class PlanDiff(Document):
    """The changes of a plan since the newest run of its name."""

    format: Literal["runspec.plan-diff/v1"]
    name: str = Field(description="The name of the spec, with the number of nodes of `scaling`.")
    run: str | None = Field(description="The run that the plan is compared with.")
    changes: list[Changed] | None = Field(
        description="The fields of requests that differ; null if there is no such run."
    )
    spec: list[Changed] | None = Field(
        default=None,
        description="The fields of the spec, the folders and the settings that differ; null if they are not known.",
    )


class PlanDiffs(Document):
    """The changes of the plans of a spec with `scaling`."""

    format: Literal["runspec.plan-diffs/v1"]
    diffs: list[PlanDiff]


class UploadedFile(Part):
    """A file that is uploaded."""

    path: str = Field(description="Relative to the folder.")
    bytes: int


class LeftOutFile(Part):
    """A file or folder that is not uploaded."""

    path: str = Field(description="Relative to the folder; that of a folder ends with /.")
    why: str = Field(description="The rule that leaves it out, for people.")


class UploadedFolder(Part):
    """A folder of this machine that a spec mounts."""

    mount: str = Field(description="The name of the mount.")
    source: str
    digest: str
    files: list[UploadedFile]
    left_out: list[LeftOutFile]


class PlanFiles(Document):
    """The files that `apply` would upload, by `plan --files`."""

    format: Literal["runspec.plan-files/v1"]
    folders: list[UploadedFolder]


class Export(Document):
    """The files that `plan --export` wrote."""

    format: Literal["runspec.export/v1"]
    files: list[str]
    notes: list[str] = Field(description="What the files leave out, for people.")
