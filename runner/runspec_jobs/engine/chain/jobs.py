"""The jobs of a chain: read from their texts, planned, and with what each needs of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from runspec_jobs.engine import apply as engine
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.source_runs import find_planned_run, place_of
from runspec_jobs.load import chain_file, inputs
from runspec_jobs.load.chain_file import ChainFile
from runspec_jobs.load.inputs import PlanInputs
from runspec_jobs.load.overrides import Overrides, demand_job, demand_jobs, override_job
from runspec_jobs.load.run_mounts import SourceRun
from runspec_jobs.load.source import InvalidSpec, SourceFile
from runspec_jobs.plan import model
from runspec_jobs.plan.model import PREVIEW, Plan
from runspec_jobs.provider import Parent, Spec, SupportsParents
from runspec_jobs.spec.chain_rules import ancestors, in_order, list_paired, parents
from runspec_jobs.spec.needs import Condition


@dataclass(frozen=True)
class ChainJobs:
    """The jobs of a chain in an order in which they can run; *provider* replaces those of all, if it is given.

    *every* has what each job of the file needs, also if only some of them were chosen.
    """

    inputs: Mapping[str, PlanInputs]
    provider: str | None = None
    every: Mapping[str, Mapping[str, Condition]] = field(default_factory=dict)

    def needs(self, job: str) -> dict[str, Condition]:
        """Return the jobs of the chain that *job* needs, with how each must have ended."""
        return parents(self.inputs[job].spec, self._specs)

    def list_copied(self, job: str) -> list[str]:
        """Return the mounts of *job* whose files this machine copies, because the jobs save to different stores."""
        spec, facts = self.inputs[job].spec, self.inputs[job].facts
        return [m.name for m in spec.mounts if m.of_run is not None and m.name in facts.sources]

    def is_paired(self, job: str, parent: str) -> bool:
        """Return whether each task of *job* may start when the task of its own number of *parent* has succeeded."""
        own, provider = self.inputs[job].spec, self.inputs[job].provider
        if parent not in list_paired(own) or not isinstance(provider, SupportsParents):
            return False
        return all(map(provider.has_job_per_task, (own, self.inputs[parent].spec)))

    def waits_by_service(self, job: str) -> list[str]:
        """Return the jobs that *job* needs for which its own service can wait, without this machine."""
        own = self.inputs[job]
        place, provider = _find_waiting_place(own), own.provider
        if place is None or not isinstance(provider, SupportsParents):
            return []
        # The best task is not known before the parent has ended, and files of another store must be copied first.
        by_client = {
            mount.of_run.job
            for mount in own.spec.mounts
            if mount.of_run is not None and (mount.of_run.best or mount.name in own.facts.sources)
        }
        able = [
            name
            for name, how in self.needs(job).items()
            if _find_waiting_place(self.inputs[name]) == place
            and str(how) in provider.conditions
            and provider.tells_end(self.inputs[name].spec, str(how))
            and name not in by_client
        ]
        # This machine waits for the others.
        return able[: provider.most_parents]

    @property
    def _specs(self) -> dict[str, Spec]:
        return {name: one.spec for name, one in self.inputs.items()}


def _find_waiting_place(inputs: PlanInputs) -> str | None:
    provider = inputs.provider
    if not isinstance(provider, SupportsParents):
        return None
    return provider.waiting_place(inputs.spec, inputs.facts)


def make_parent(plan: Plan, how: Condition, *, paired: bool) -> Parent:
    """Return the run of *plan*, which has not ended, as one that a service waits for."""
    steps = tuple(step.id for step in plan.steps if engine.is_submitting(step, plan))
    return Parent(plan.run, str(how), steps, paired)


def read_jobs(
    file: ChainFile,
    overrides: Overrides,
    only: Sequence[str],
    until: Sequence[str],
    reporter: Reporter,
) -> ChainJobs:
    """Return the jobs of *file*; the arguments are those of `api.chains.load_chain`, which says what is raised."""
    provider = overrides.provider
    texts = [override_job(text, overrides) for text in file.texts]
    specs = _parse_specs(file._replace(texts=tuple(texts)))
    wanted = _choose_jobs(specs, only, until)
    demand_jobs(overrides, specs)
    gathered = _Gathering(file, dict(zip(specs, texts, strict=True)), specs, provider, reporter)
    chosen = {name: made for name, made in gathered.gather().items() if name in wanted}
    every = {name: parents(specs[name], specs) for name in in_order(specs)}
    chain = ChainJobs(chosen, provider, every)
    return replace(chain, inputs={name: _add_parents(chain, name) for name in chosen})


def _parse_specs(file: ChainFile) -> dict[str, Spec]:
    """Return the specs of *file* by name. Raises InvalidSpec with the problems of all, also those between them."""
    wrong = [text for text in file.texts if text.failed or text.document is None]
    if wrong:
        raise InvalidSpec(*wrong)
    specs, failed = [], []
    for text in file.texts:
        try:
            specs.append(inputs.parse_spec(text))
        except InvalidSpec:
            failed.append(text)
    if not failed:
        chain_file.complain_of_chain(file, specs)
        failed = [text for text in file.texts if text.failed]
    if failed:
        raise InvalidSpec(*failed)
    return {spec.name: spec for spec in specs}


def _choose_jobs(jobs: Mapping[str, Spec], only: Sequence[str], until: Sequence[str]) -> set[str]:
    for name in (*only, *until):
        demand_job(name, jobs)
    if not only and not until:
        return set(jobs)
    return {*only, *until}.union(*(ancestors(name, jobs) for name in until))


class _Gathering:
    """Gathers what planning each job needs; an output of a job of the chain is planned before that has run."""

    def __init__(
        self,
        file: ChainFile,
        texts: Mapping[str, SourceFile],
        specs: Mapping[str, Spec],
        provider: str | None,
        reporter: Reporter,
    ) -> None:
        self.file, self.texts, self.specs = file, texts, specs
        self.provider, self.reporter = provider, reporter
        self.gathered: dict[str, PlanInputs] = {}

    def gather(self) -> dict[str, PlanInputs]:
        """Return each job in order. Raises InvalidSpec with the problems of all."""
        refused: list[InvalidSpec] = []
        for name in in_order(self.specs):
            # Reading the specs has left notes that gather() writes again.
            self.texts[name].diagnostics.clear()
            if not parents(self.specs[name], self.specs).keys() <= self.gathered.keys():
                continue  # the problems of a job that it needs come first
            try:
                self.gathered[name] = self._gather_one(name)
            except InvalidSpec as exc:
                refused.append(exc)
        if refused:
            # A profile that two jobs share is refused twice, with the same problems.
            each = {(text.name, *text.diagnostics): text for exc in refused for text in exc.texts}
            raise type(refused[0])(*each.values())
        return self.gathered

    def _gather_one(self, name: str) -> PlanInputs:
        watch = self.reporter.progress
        return inputs.gather(
            self.texts[name], self.file.base, watch, self.provider, self._find_source
        )

    def _find_source(self, name: str) -> SourceRun:
        if name not in self.gathered:
            return find_planned_run(name, self.reporter)
        made = self.gathered[name]
        place = place_of(made.provider, made.spec, made.facts)
        # The id of the run is not known before apply; its plan is made with a place for it.
        return SourceRun(f"{name}-{PREVIEW}", made.spec, place, lambda: None)


def _add_parents(chain: ChainJobs, name: str) -> PlanInputs:
    """Return a job as it is planned: with the jobs that its service waits for."""
    made, needs = chain.inputs[name], chain.needs(name)
    waited = []
    for other in chain.waits_by_service(name):
        of = chain.inputs[other]
        plan = model.make_plan(of.provider, of.spec, PREVIEW, of.facts)
        waited.append(make_parent(plan, needs[other], paired=chain.is_paired(name, other)))
    return replace(made, facts=made.facts._replace(parents=tuple(waited)))
