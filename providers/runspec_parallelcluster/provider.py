"""The ParallelCluster provider, as the core uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

from runspec_jobs.provider import Client, Facts, Finding, Options, Problem, Spec, Step, Unavailable
from runspec_jobs.provider.machines import NOT_READ, ListedPrices, Offer, PriceList
from runspec_jobs.provider.probe import Probe
from runspec_jobs.provider.spec_checks import ends_as_a_whole, has_several_tasks
from runspec_jobs.provider.types import Emulation
from runspec_parallelcluster import infrastructure, job, plan
from runspec_parallelcluster.check import rules
from runspec_parallelcluster.decision import decide
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_slurm import check as slurm_check, plan as slurm_plan
from runspec_slurm.decision import decide as decide_job
from runspec_slurm.job import AFTER

RIGHTS = (
    "take them from https://docs.aws.amazon.com/parallelcluster/latest/ug/iam-roles-in-parallelcluster-v3.html; "
    "runspec prices --update needs ec2:DescribeSpotPriceHistory and pricing:GetProducts in addition"
)


class ParallelClusterProvider:
    """Runs jobs on Slurm clusters that AWS ParallelCluster makes."""

    name = "parallelcluster"
    options_model: type[Options] = ParallelClusterOptions
    enters = ("shell", "tunnel")
    builds_conda = True

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        decision = decide(spec, facts.options)
        of_job = job.facts(decision, facts)
        yield from rules.problems(decision, spec, facts)
        yield from slurm_check.problems(decide_job(spec, of_job), spec, of_job)

    def survey(self, spec: Spec, options: Any) -> Mapping[str, Any]:
        from runspec_parallelcluster.discover import survey

        return survey(spec, options)

    def examine(self, options: Any) -> Iterable[Finding]:
        from runspec_parallelcluster.doctor import examine

        return examine(options)

    def probes(self, options: Any) -> Sequence[Probe]:
        from runspec_parallelcluster import probes

        return probes.probes()

    def saves_place(self, spec: Spec, facts: Facts) -> str | None:
        decision = decide(spec, facts.options)
        options = job.options(decision)
        return f"parallelcluster:{options.region}:{infrastructure.name(decision)}:{options.host}:{options.workspace}"

    conditions = tuple(AFTER)
    most_parents = 200  # as many as a chain has jobs

    def waiting_place(self, spec: Spec, facts: Facts) -> str | None:
        return self.saves_place(spec, facts)

    def tells_end(self, spec: Spec, condition: str) -> bool:
        # `ended` is true of all jobs of an array, however they have ended.
        return condition == "ended" or ends_as_a_whole(spec)

    def has_job_per_task(self, spec: Spec) -> bool:
        return has_several_tasks(spec) and not spec.cluster.nodes.elastic

    def examine_job(self, spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterable[Finding]:
        from runspec_parallelcluster.doctor import examine_job

        return examine_job(facts.options, steps)

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        decision = decide(spec, facts.options)
        of_job = job.facts(decision, facts)
        job_steps = slurm_plan.steps(decide_job(spec, of_job), spec, run, of_job)
        return tuple(plan.steps(decision, job_steps))

    def offer(self, spec: Spec, facts: Facts, listed: ListedPrices = NOT_READ) -> Offer:
        from runspec_parallelcluster import offer

        return offer.offer(decide(spec, facts.options), listed)

    def policy(self, steps: Iterable[Step], options: Any, *, of_job: bool) -> NoReturn:
        what = "the permissions for clusters are those that AWS lists for ParallelCluster"
        raise Unavailable(what, RIGHTS)

    def price_list(self, options: Any) -> PriceList | None:
        return PriceList("ec2", options.region) if options.region else None

    def read_prices(self, options: Any) -> ListedPrices:
        hint = f"add providers: {{aws-batch: {{region: {options.region}}}}} to the profile: it reads the same list"
        raise Unavailable("parallelcluster has no SDK of AWS to read price lists with", hint)

    def first_profile(self) -> str:
        from runspec_parallelcluster.options import PROFILE_TEMPLATE

        return PROFILE_TEMPLATE

    def rehearse(
        self, options: Mapping[str, Any], folder: Path, engine: str | None
    ) -> AbstractContextManager[Emulation]:
        from runspec_parallelcluster.emulator import stage

        return stage(options, folder, engine)

    def fill(self, stage: Emulation, container: str, folder: Path) -> None:
        from runspec_slurm.emulator import fill

        fill(stage, container, folder)

    def connect(self, facts: Facts) -> Client:
        from runspec_parallelcluster.client import connect

        return connect(facts)


PROVIDER = ParallelClusterProvider()
