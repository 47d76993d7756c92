"""The Slurm provider, as the core uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from runspec_jobs.provider import (
    Client,
    Facts,
    Finding,
    Options,
    Problem,
    Spec,
    Step,
    UsageError,
)
from runspec_jobs.provider.machines import Offer
from runspec_jobs.provider.spec_checks import check_disk_tier, ends_as_a_whole, has_several_tasks
from runspec_jobs.provider.types import Emulation, ForeignFile, Imported
from runspec_slurm import check, job, plan
from runspec_slurm.decision import decide
from runspec_slurm.options import SlurmOptions


class SlurmProvider:
    """Runs jobs on a Slurm cluster."""

    name = "slurm"
    options_model: type[Options] = SlurmOptions
    enters = ("shell", "tunnel")
    builds_conda = True

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        yield from check.problems(decide(spec, facts), spec, facts)
        # Not for clusters of ParallelCluster, whose machines have such disks.
        yield from check_disk_tier(spec, ("low", "best"), check.ONE_DISK, check.ANOTHER_DISK)

    def offer(self, spec: Spec, facts: Facts) -> Offer:
        """Return no machines: what a node of a cluster costs is known from `prices` in the profile alone."""
        what = "the price of a node hour is unknown: set prices: {slurm: USD} in the profile"
        return Offer((), why=what)

    def survey(self, spec: Spec, options: Any) -> Mapping[str, Any]:
        from runspec_slurm.discover import survey

        return survey(spec, options)

    def examine(self, options: Any) -> Iterable[Finding]:
        from runspec_slurm.doctor import examine

        return examine(options)

    def examine_job(self, spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterable[Finding]:
        from runspec_slurm.doctor import examine_job

        return examine_job(facts.options, steps)

    def examine_node(self, options: Any) -> Iterable[Finding]:
        from runspec_slurm.discover import examine

        return examine(options)

    def saves_place(self, spec: Spec, facts: Facts) -> str | None:
        options: SlurmOptions = facts.options
        return f"slurm:{options.host or ''}:{options.workspace}"

    conditions = tuple(job.AFTER)
    most_parents = 200  # as many as a chain has jobs

    def waiting_place(self, spec: Spec, facts: Facts) -> str | None:
        return self.saves_place(spec, facts)

    def tells_end(self, spec: Spec, condition: str) -> bool:
        # `ended` is true of all jobs of an array, however they have ended.
        return condition == "ended" or ends_as_a_whole(spec)

    def has_job_per_task(self, spec: Spec) -> bool:
        return has_several_tasks(spec) and not spec.cluster.nodes.elastic

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        return plan.steps(decide(spec, facts), spec, run, facts)

    reads = "batch scripts of Slurm"

    def imports(self, job: ForeignFile, cluster: ForeignFile | None) -> Imported:
        from runspec_slurm.importing.conversion import convert

        if cluster is not None:
            raise UsageError(
                f"{cluster.name}: a batch script has no file of a cluster", "omit --cluster"
            )
        return convert(job)

    def first_profile(self) -> str:
        from runspec_slurm.options import PROFILE_TEMPLATE

        return PROFILE_TEMPLATE

    def rehearse(
        self, options: Mapping[str, Any], folder: Path, engine: str | None
    ) -> AbstractContextManager[Emulation]:
        from runspec_slurm.emulator import stage

        return stage(options, folder, engine)

    def fill(self, stage: Emulation, container: str, folder: Path) -> None:
        from runspec_slurm.emulator import fill

        fill(stage, container, folder)

    def connect(self, facts: Facts) -> Client:
        from runspec_slurm.client import connect

        return connect(facts)


PROVIDER = SlurmProvider()
