"""The Azure Batch AI provider, as the core sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from runspec_batchai import check, plan
from runspec_batchai.decision import decide
from runspec_batchai.options import BatchAiOptions
from runspec_jobs.provider import Client, Facts, Finding, Options, Problem, Spec, Step
from runspec_jobs.provider.machines import NOT_READ, ListedPrices, Offer, PriceList
from runspec_jobs.provider.types import Emulation, Exported, ForeignFile, Imported


class BatchAiProvider:
    """Runs jobs on Azure Batch AI, or on an endpoint with its API."""

    name = "azure-batch-ai"
    options_model: type[Options] = BatchAiOptions
    numbers_processes: Literal[True] = True

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        return check.problems(decide(spec, facts.options), spec, facts)

    def survey(self, spec: Spec, options: Any) -> Mapping[str, Any]:
        if not (options.arm_url and options.subscription and options.location) or options.cluster:
            return {}  # there is no endpoint, or no cluster to make
        from runspec_batchai.discover import survey

        return survey(spec, options)

    def examine(self, options: Any) -> Iterable[Finding]:
        from runspec_batchai.doctor import examine

        return examine(options)

    def examine_job(self, spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterable[Finding]:
        from runspec_batchai.doctor import examine

        return examine(facts.options, decide(spec, facts.options))

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        return tuple(plan.steps(decide(spec, facts.options), spec, run, facts))

    def offer(self, spec: Spec, facts: Facts, listed: ListedPrices = NOT_READ) -> Offer:
        from runspec_batchai import offer

        return offer.offer(decide(spec, facts.options), listed)

    def export(self, steps: Sequence[Step]) -> Exported:
        from runspec_batchai.importing.export import exported

        return exported(steps)

    reads = "job files of Azure Batch AI"

    def imports(self, job: ForeignFile, cluster: ForeignFile | None) -> Imported:
        from runspec_batchai.importing.conversion import imported

        return imported(job, cluster)

    def lost_settings(self, spec: Spec) -> Iterable[Problem]:
        from runspec_batchai.importing import lost_settings

        return lost_settings.find_lost(spec)

    def lost_profile(self, spec: Spec, profile: Mapping[str, Any]) -> Iterable[Problem]:
        from runspec_batchai.importing import lost_settings

        return lost_settings.find_lost_setup(profile)

    def price_list(self, options: Any) -> PriceList | None:
        return PriceList("azure", options.location) if options.location else None

    def read_prices(self, options: Any) -> ListedPrices:
        from runspec_azure.resources import price_list

        return price_list.read(options.location)

    def first_profile(self) -> str:
        from runspec_batchai.options import PROFILE_TEMPLATE

        return PROFILE_TEMPLATE

    def rehearse(
        self, options: Mapping[str, Any], folder: Path, engine: str | None
    ) -> AbstractContextManager[Emulation]:
        from runspec_batchai.emulator import stage

        return stage(options, folder, engine)

    def fill(self, stage: Emulation, container: str, folder: Path) -> None:
        from runspec_batchai.emulator import fill

        fill(stage, container, folder)

    def connect(self, facts: Facts) -> Client:
        from runspec_batchai.client import connect

        return connect(facts)


PROVIDER = BatchAiProvider()
