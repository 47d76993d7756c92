"""Jobs, which are specs with everything that planning them needs, and their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.api.specs import Diagnostic, InvalidSpec, Source, SourceFile, read_spec
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.document.nodes import Value
from runspec_jobs.engine.clients import read_offer
from runspec_jobs.errors import Damaged, Unavailable, UsageError
from runspec_jobs.load import chain_file, source
from runspec_jobs.load.folder_scan import LeftOut
from runspec_jobs.load.inputs import PlanInputs, gather, parse_spec, replace_size
from runspec_jobs.load.overrides import (
    Overrides as Overrides,
    Params as Params,
    apply_overrides,
    write_params,
)
from runspec_jobs.load.run_mounts import SourceRun
from runspec_jobs.machines.estimate import (
    Estimate as Estimate,
    PricedMachine as PricedMachine,
    StandingCost as StandingCost,
    Work,
    estimate as estimated,
)
from runspec_jobs.machines.exposure import (
    Exposure as Exposure,
    compute_exposure as compute_exposure,
)
from runspec_jobs.plan import diff, model, shell_job as holding, smoke, spec_diff
from runspec_jobs.plan.diff import Change as Change
from runspec_jobs.plan.model import Plan as Plan
from runspec_jobs.plan.smoke import UNREACHED as UNREACHED, find_unreached as find_unreached
from runspec_jobs.provider import (
    Capacity,
    Scope as Scope,
    Spec,
    SupportsPolicy,
)
from runspec_jobs.report.numbers import format_usd
from runspec_jobs.spec import placeholders
from runspec_jobs.spec.sweep import Random
from runspec_jobs.state import origin, run_record
from runspec_jobs.state.run_record import Record


@dataclass(frozen=True)
class Job:
    """A spec that was read and checked, with everything that planning it needs; made by `load`.

    *inputs* is for runspec itself, and so is *group*, which is the whole spec if this job is one of its sizes.
    """

    inputs: PlanInputs
    group: PlanInputs | None = None

    def __repr__(self) -> str:
        spec = self.spec
        tasks = placeholders.count_tasks(spec.sweep)
        many = f", {tasks:,} tasks" if tasks > 1 else ""
        nodes = spec.cluster.nodes
        count = f"{nodes.min} to {nodes.max}" if nodes.elastic else f"{nodes.max}"
        return f"<Job {spec.name} on {spec.provider}: {count} node{'s' * (count != '1')}{many}>"

    def _repr_html_(self) -> str:
        from runspec_jobs.diagnostics.html_table import make_html_table  # no command needs it

        names = list(self.spec.sweep)
        tasks = self.tasks() if names else ()
        columns = ("task", *(tasks[0] if tasks else ()))
        rows = [(number, *values.values()) for number, values in enumerate(tasks)]
        return make_html_table(repr(self)[1:-1], columns, rows)

    @property
    def spec(self) -> Spec:
        """The spec as a model, with its defaults."""
        return self.inputs.spec

    @property
    def text(self) -> SourceFile:
        """The text of the spec with the places of its fields."""
        return self.inputs.text

    @property
    def profile(self) -> Path | None:
        """The path of the profile in use, or None."""
        return self.inputs.profile

    @property
    def notes(self) -> Sequence[Diagnostic]:
        """Warnings and notes about the spec, with their positions."""
        return tuple(self.inputs.text.diagnostics)

    def sizes(self) -> tuple[Job, ...]:
        """Return a job for each size in `scaling`, or this job if the spec has no `scaling`."""
        if self.spec.scaling is None:
            return (self,)
        each = (replace_size(self.inputs, size) for size in self.spec.scaling.sizes)
        return tuple(Job(inputs, self.inputs) for inputs in each)

    @property
    def confirm_above_usd(self) -> float:
        """The cost above which the command line asks before it starts the job; from the profile."""
        return self.inputs.confirm_above_usd

    def tasks(self) -> Sequence[Mapping[str, str]]:
        """Return the values of the sweep for each task, those that are drawn at random too."""
        return placeholders.tasks(self.spec)

    @property
    def draws(self) -> bool:
        """Whether values of the sweep are drawn at random."""
        return any(isinstance(part, Random) for part in self.spec.sweep.values())


def load(
    spec: Source,
    *,
    base: str | Path | None = None,
    provider: str | None = None,
    settings: Sequence[str] = (),
    arguments: Sequence[str] = (),
    params: Params = (),
    on_event: OnEvent | None = None,
) -> Job:
    """Read and check a spec: a file, its content as bytes, a mapping as YAML would give it, or a `Spec`.

    Relative paths in the spec start from *base*: by default the folder of the file, or the current folder. *provider*
    replaces the provider of the spec, *settings* such as `cluster.nodes=4` replace or add fields, *arguments* are
    added to its command, and *params* such as `{"size": "7b"}` or `["size=7b"]` are values of its parameters: the
    record of a run contains them.

    The folders to mount are read and hashed; no request is sent, except to the
    schedulers of providers that ask them while planning. Raises InvalidSpec, whose `texts` have all problems with their
    positions, UsageError if the file cannot be read, and Unavailable if the provider is not installed.
    """
    text = apply_overrides(
        read_spec(spec), Overrides(provider, settings, arguments, write_params(params))
    )
    if base is None:
        base = Path(spec).parent if isinstance(spec, str | Path) else "."
    events = Events(on_event)
    job = Job(
        gather(
            text,
            Path(base),
            events.progress,
            provider,
            lambda name: _find_run(name, events),
        )
    )
    chain_file.complain_of_one(job.text, job.spec)
    if job.text.failed:
        raise InvalidSpec(job.text)
    return job


def _find_run(name: str, events: Events) -> SourceRun:
    """Return the run whose output a mount names."""
    from runspec_jobs.engine import source_runs  # slow to import, and few specs mount outputs

    return source_runs.find_planned_run(name, events)


class Folder(NamedTuple):
    """A folder of this machine that is uploaded: its files with their sizes in bytes, and what is left out and why."""

    mount: str
    source: str
    digest: str
    files: Sequence[tuple[str, int]]
    left_out: Sequence[LeftOut]


def list_folders(job: Job) -> list[Folder]:
    """Return the folders that *job* uploads, in the order of its mounts."""
    sources = {mount.name: mount.source for mount in job.spec.mounts}
    return [
        Folder(
            name,
            sources[name],
            bundle.digest,
            [(file.path, file.bytes) for file in bundle.files],
            bundle.left_out,
        )
        for name, bundle in job.inputs.bundles.items()
    ]


def make_smoke_test(job: Job) -> Job:
    """Return the smoke test of *job* as a job with the same facts, machines and container.

    Raises UsageError if the spec has no smoke test, and InvalidSpec if the provider cannot run it.
    """
    spec, name = job.spec, job.text.name
    if spec.smoke is None:
        message = f"{name} has no smoke test"
        raise UsageError(message, "add smoke: [program, argument] or smoke: |")
    return _derive(job, f"the smoke test of {name}", smoke.make_text(spec, _parse_content(job)))


def make_shell_job(job: Job) -> Job:
    """Return the job that holds one node of *job* for a shell, with the same facts, packages and files.

    Raises UsageError if the spec has no timeout, and InvalidSpec if the provider cannot run it.
    """
    spec, name = job.spec, job.text.name
    if spec.timeout is None:
        message = (
            f"{name} has no timeout, and a shell that is left open would hold its node for ever"
        )
        raise UsageError(message, "add timeout: 8h to the spec, or --set timeout=8h to the command")
    return _derive(
        job, f"the job of a shell in {name}", holding.make_text(spec, _parse_content(job))
    )


def _parse_content(job: Job) -> Mapping[str, Value]:
    document = job.text.document
    assert document is not None, "BUG: a spec was read"
    assert isinstance(document.value, dict), "BUG: a spec was checked"
    return document.value


def _derive(job: Job, name: str, content: str) -> Job:
    """Return the job of the spec *content*, which was made from the spec of *job*."""
    inputs = job.inputs
    text = source.read(name, content.encode())
    spec = parse_spec(text)
    # The derived job has other numbers of nodes and tasks, which the provider may refuse.
    text.add_problems(inputs.provider.check(spec, inputs.facts))
    if text.failed:
        raise InvalidSpec(text)
    return Job(replace(inputs, text=text, spec=spec), job.group)


def take_job(job: Job | Source) -> Job:
    """Return *job*, or the job of a spec that `load` takes."""
    return job if isinstance(job, Job) else load(job)


def plan(job: Job | Source) -> Plan:
    """Return the plan of *job*: all requests that `apply` would send, with a placeholder in place of the run id.

    *job* may also be a spec, as `load` takes it. Raises UsageError if the spec has `scaling`: plan each of
    `job.sizes()`.
    """
    job = take_job(job)
    demand_one_size(job)
    inputs = job.inputs
    return model.make_plan(inputs.provider, inputs.spec, model.PREVIEW, inputs.facts)


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON."""
    return model.write_plan(plan)


def find_last_plan(job: Job) -> Plan | None:
    """Return the plan of the newest run of the name of *job* that was not destroyed, or None.

    Runs of its folder come first.
    """
    record = _find_newest(job)
    return None if record is None else record.plan


def _find_newest(job: Job) -> Record | None:
    records = run_record.list_runs(job.spec.name)
    base = job.inputs.base.resolve()
    # Two checkouts may have specs of the same name.
    of_folder = [
        record
        for record in records
        if (at := origin.read_origin(record).folder) and at.resolve() == base
    ]
    return next(reversed(of_folder or records), None)


def compare_plans(before: Plan | None, plan: Plan) -> list[Change] | None:
    """Return the fields in which *plan* differs from *before*; None if there is no plan before it."""
    return None if before is None else diff.find_differences(before, plan)


def compare_specs(job: Job) -> list[Change] | None:
    """Return what changed since the newest run of the name of *job*, in the words of the spec.

    Return None if there is no such run, or if this version of runspec cannot read what it was made from.
    """
    record = _find_newest(job)
    if record is None or record.plan.provider != job.spec.provider:
        return None
    try:
        before = (record.spec, record.read_facts(job.inputs.provider))
    except Damaged:
        return None
    return spec_diff.find_differences(before, (job.spec, job.inputs.facts))


def estimate(job: Job | Source) -> Estimate | None:
    """Return what *job* may cost, or None if its provider charges nothing and the profile has no price for it.

    *job* may also be a spec, as `load` takes it. Raises UsageError if the spec has `scaling`: estimate each of
    `job.sizes()`.
    """
    job = take_job(job)
    demand_one_size(job)
    inputs, spec = job.inputs, job.spec
    offer, listed = read_offer(inputs.provider, spec, inputs.facts, inputs.prices)
    # Such as `local`, and Slurm without a price in the profile.
    if not (offer.machines or offer.standing or offer.why) and spec.provider not in inputs.prices:
        return None
    tasks = placeholders.count_tasks(spec.sweep)
    work = Work(
        nodes=spec.cluster.nodes.max,
        tasks=tasks,
        parallel=min(tasks, spec.max_parallel or tasks),
        timeout_s=spec.timeout,
        attempts=spec.retry.attempts,
        spot_attempts=spec.retry.spot_attempts,
        spot=spec.cluster.capacity is not Capacity.ON_DEMAND,
        least_nodes=spec.cluster.nodes.min,
        elastic=spec.cluster.nodes.elastic,
    )
    return estimated(offer, work, spec.provider, inputs.prices, listed)


def demand_below(jobs: Sequence[Job], most_usd: float | None, name: str = "max_usd") -> None:
    """Raise UsageError if *jobs* may cost more than *most_usd* together, or if that is not known.

    Spot machines count by their price on demand, which is the most that they can cost. *name* is the limit in messages.
    """
    if most_usd is not None and not 0 <= most_usd < float("inf"):
        raise UsageError(f"{name}: '{most_usd}' is not an amount of USD", f"write {name} 50")
    costs = [cost for cost in map(estimate, jobs) if cost is not None]
    if not costs or most_usd is None:
        return
    of = compute_exposure(costs)
    if of.usd is None:
        hint = "add a price to `prices` in the profile, or read them: runspec prices --update"
        if any(job.spec.timeout is None for job in jobs):
            hint = f"add a timeout to the spec, or {hint}"
        what = f"{name}: the cost has no known limit: {of.unbounded}{describe_instead(of)}"
        raise UsageError(escape_control(what), hint)
    if of.usd > most_usd:
        jobs_ = "the job" if len(costs) == 1 else f"the {len(costs)} jobs"
        what = (
            f"{name}: {jobs_} may cost {format_usd(of.usd)}, and {format_usd(most_usd)} are allowed"
        )
        hint = (
            "shorten timeout, or ask for fewer nodes, tasks, retry.attempts or retry.spot_attempts"
        )
        if of.usd - of.standing_usd <= most_usd:
            what += f"; {format_usd(of.standing_usd)} of it are for what stays beside the job"
            hint = "runspec plan lists it; what stays until it is deleted counts for a day at least"
        raise UsageError(what, hint)


def describe_instead(exposure: Exposure) -> str:
    """Return what is known in place of the most that jobs can cost, as the end of a sentence."""
    if exposure.near_usd is not None:
        return f"; {format_usd(exposure.near_usd)} by the prices of {exposure.near_region}"
    if exposure.machine_hours is None:
        return ""
    return f"; {exposure.machine_hours:,.4g} machine hours"


def make_policy(job: Job, *, of_job: bool = False) -> Mapping[str, Any]:
    """Return the least permissions to apply *job*, or with *of_job* those that its own role needs.

    Raises Unavailable if the provider has no permissions that could be listed.
    """
    # The largest size needs the most permissions, if the list is in ascending order.
    inputs = job.sizes()[-1].inputs
    if not isinstance(inputs.provider, SupportsPolicy):
        raise Unavailable(f"'{inputs.provider.name}' has no permissions that runspec could list")
    plan = model.make_plan(inputs.provider, inputs.spec, model.PREVIEW, inputs.facts)
    return inputs.provider.policy(plan.steps, inputs.facts.options, of_job=of_job)


def demand_one_size(job: Job) -> None:
    """Raise UsageError if *job* has several sizes."""
    if job.spec.scaling is not None:
        message = f"{job.spec.name} describes a job for each size in `scaling`"
        raise UsageError(message, "use each of job.sizes()")
