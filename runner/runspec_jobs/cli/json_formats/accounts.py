"""The formats of the commands that set up this machine and look after accounts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from runspec_jobs.api.probes import Verdict
from runspec_jobs.cli.json_formats.base import Document, Part


class Init(Document):
    """The files that `init` wrote."""

    format: Literal["runspec.init/v1"]
    file: str
    schema_: str = Field(alias="schema")
    profile: str | None = Field(description="null if no profile was written.")


class Import(Document):
    """A job file of another tool as a spec."""

    format: Literal["runspec.import/v1"]
    spec: str = Field(description="The text of the spec.")
    profile: str = Field(description="The text of the profile.")
    notes: list[str] = Field(description="What was left out or changed, for people.")
    files: list[str] = Field(description="The files that were written.")


class Column(Part):
    """A column of a page, with what it says."""

    title: str
    text: str = Field(description="For people.")


class Explanation(Part):
    """What a page says about a code, a state, a term or a message."""

    kind: str = Field(description="What is explained, for people.")
    words: str = Field(description="As the page has them.")
    texts: list[Column]
    page: str = Field(description="The page, below the top folder of the project.")


class Explain(Document):
    """What explains a code or a word."""

    format: Literal["runspec.explain/v1"]
    entries: list[Explanation]


class DocsPage(Part):
    """A page of the documentation."""

    name: str = Field(description="As in `runspec docs NAME`.")
    title: str
    about: str = Field(description="What the page is about, for people.")
    section: str = Field(description="The section of the index that lists it.")


class Docs(Document):
    """The pages of the documentation, or one of them."""

    format: Literal["runspec.docs/v1"]
    pages: list[DocsPage] = Field(description="All pages; empty where one was asked for.")
    text: str | None = Field(description="The page or section that was asked for, in Markdown.")


class InstalledProvider(Part):
    """An installed provider."""

    name: str
    package: str
    works: bool
    why: str = Field(description="Why it does not work, for people.")


class Providers(Document):
    """The installed providers."""

    format: Literal["runspec.providers/v1"]
    providers: list[InstalledProvider]


class Finding(Part):
    """The result of one check."""

    about: str = Field(description="The provider, or `profile`.")
    job: str | None = Field(description="The job that it is about; null if none was given.")
    what: str = Field(description="What was found, for people.")
    ok: bool = Field(description="false if it stops a job.")
    hint: str | None = Field(description="What to do, for people.")
    unknown: bool = Field(description="true if it could not be checked; `ok` is then true.")


class Doctor(Document):
    """The results of all checks."""

    format: Literal["runspec.doctor/v1"]
    findings: list[Finding]
    job: str | None = Field(
        description="The name of the job or chain; null if doctor was not given one."
    )
    will_run: bool | None = Field(
        description="Whether it will run; null without a job, or if no check failed and some could not be made."
    )


class ProbeResult(Part):
    """What one probe has observed."""

    id: str
    title: str
    verdict: Verdict
    seen: str = Field(description="What was observed, for people.")
    seconds: float


class Left(Part):
    """A resource that a probe could not delete."""

    what: str
    by_hand: str = Field(description="How to delete it, for people.")


class Probe(Document):
    """What the probes have observed."""

    format: Literal["runspec.probe/v1"]
    provider: str
    probes: list[ProbeResult]
    left: list[Left]


class Trust(Document):
    """Whether a profile is trusted now."""

    format: Literal["runspec.trust/v1"]
    file: str
    trusted: bool


class PriceList(Part):
    """The prices of machines of a service in a region, in USD an hour with Linux."""

    list: str = Field(description="The service and the region, such as ec2/eu-west-1.")
    date: str = Field(description="The day on which it was read, as YYYY-MM-DD.")
    source: str = Field(description="Where it was read, for people.")
    usd_hour: dict[str, float] = Field(description="On demand, by the name of a machine.")
    spot_usd_hour: dict[str, float] = Field(description="Of spot machines when it was read.")
    services: dict[str, float] = Field(
        description="Of what is sold besides machines, such as `nat gateway`: for an hour, or a GB and month."
    )


class Prices(Document):
    """The prices that were read from price lists."""

    format: Literal["runspec.prices/v1"]
    lists: list[PriceList]


class TrustedFile(Part):
    """A profile that was trusted; not any more if it was changed."""

    file: str
    trusted: bool


class Trusted(Document):
    """The profiles that were trusted."""

    format: Literal["runspec.trusted/v1"]
    files: list[TrustedFile]


class Orphan(Part):
    """A resource without a record on this machine."""

    what: str = Field(description="What it is, for people.")
    run: str | None
    alive: bool = Field(description="Whether a job that has not ended needs it.")
    removed: bool


class Gc(Document):
    """The orphans of a provider."""

    format: Literal["runspec.gc/v1"]
    orphans: list[Orphan]


class SetupStep(Part):
    """Something that a setup makes in an account."""

    title: str = Field(description="For people.")
    existed: bool = Field(description="Whether it was there before.")


class Setup(Document):
    """What an account has now for its first job."""

    format: Literal["runspec.setup/v1"]
    provider: str
    place: str = Field(description="The account and the region, for people.")
    steps: list[SetupStep]
    settings: dict[str, Any] = Field(description="What the profile needs to say of the provider.")
    profile: str = Field(description="The path of the profile.")
    trusted: bool = Field(description="Whether the settings in the profile count.")
    costs: list[str]
    notes: list[str]


class SetupUndone(Document):
    """What a setup had made."""

    format: Literal["runspec.setup-undone/v1"]
    provider: str
    deleted: list[str] = Field(description="For people.")
    profile: str | None = Field(description="The profile, if it was deleted as well.")
