"""The Azure Batch provider, as the core sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from runspec_azure.batch import plan, policy
from runspec_azure.batch.check import rules
from runspec_azure.batch.decision import decide, mount_store
from runspec_azure.batch.options import BatchOptions
from runspec_azure.resources import request
from runspec_azure.store_layout import store
from runspec_jobs.provider import (
    Client,
    Facts,
    Finding,
    Options,
    Problem,
    Setup,
    SetupClient,
    Spec,
    Step,
)
from runspec_jobs.provider.machines import NOT_READ, ListedPrices, Offer, PriceList
from runspec_jobs.provider.probe import Probe
from runspec_jobs.provider.types import Emulation, Exported


class AzureBatchProvider:
    """Runs jobs on Azure Batch."""

    name = "azure-batch"
    options_model: type[Options] = BatchOptions

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        spec, facts = mount_store(spec, facts)
        return rules.problems(decide(spec, facts), spec, facts)

    def survey(self, spec: Spec, options: Any) -> Mapping[str, Any]:
        if not (options.subscription and options.batch_url):
            return {}  # without both, the account cannot be read
        from runspec_azure.discover import survey

        return survey(options)

    @property
    def setup_model(self) -> type[Options]:
        from runspec_azure.batch.setup.options import BatchSetup

        return BatchSetup

    def survey_account(self, options: Any) -> Mapping[str, Any]:
        from runspec_azure.batch.setup import survey

        return survey.survey(options)

    def plan_setup(self, options: Any, survey: Mapping[str, Any], setup: str) -> Setup:
        from runspec_azure.batch.setup import steps

        return steps.plan(options, survey, setup)

    def connect_setup(self, options: Any, survey: Mapping[str, Any], setup: str) -> SetupClient:
        from runspec_azure.batch.setup.client import connect

        return connect(options, survey, setup)

    def setup_policy(self, options: Any) -> Mapping[str, Any]:
        from runspec_azure.batch.setup import template

        return template.make_policy(options)

    def export_setup(self, setup: Setup) -> Exported:
        from runspec_azure.batch.setup import template

        return template.export(setup)

    def examine(self, options: Any) -> Iterable[Finding]:
        from runspec_azure.batch.doctor import examine

        return examine(options)

    def examine_job(self, spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterable[Finding]:
        from runspec_azure.batch.doctor_job import examine

        return examine(spec, facts, steps)

    def doctor_policy(self, options: Any) -> Mapping[str, Any]:
        return policy.doctor_policy(options)

    def probes(self, options: Any) -> Sequence[Probe]:
        from runspec_azure.batch.probes import beliefs

        return beliefs.probes(options)

    def saves_place(self, spec: Spec, facts: Facts) -> str | None:
        options: BatchOptions = facts.options
        return store(options) if options.container and options.files == "agent" else None

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        spec, facts = mount_store(spec, facts)
        return plan.steps(decide(spec, facts), spec, run, facts)

    def offer(self, spec: Spec, facts: Facts, listed: ListedPrices = NOT_READ) -> Offer:
        from runspec_azure.batch import offer

        return offer.offer(decide(*mount_store(spec, facts)), listed)

    def policy(self, steps: Iterable[Step], options: Any, *, of_job: bool) -> Mapping[str, Any]:
        return policy.policy(steps, options, of_job=of_job)

    def price_list(self, options: Any) -> PriceList | None:
        where = request.region(options)
        return PriceList("azure", where) if where else None

    def read_prices(self, options: Any) -> ListedPrices:
        from runspec_azure.resources import price_list

        return price_list.read(request.region(options))

    def first_profile(self) -> str:
        from runspec_azure.batch.options import PROFILE_TEMPLATE

        return PROFILE_TEMPLATE

    def fill(self, stage: Emulation, container: str, folder: Path) -> None:
        from runspec_azure.batch.emulator import fill

        fill(stage, container, folder)

    def rehearse(
        self, options: Mapping[str, Any], folder: Path, engine: str | None
    ) -> AbstractContextManager[Emulation]:
        from runspec_azure.batch.emulator import stage

        return stage(options, folder, engine)

    def connect(self, facts: Facts) -> Client:
        from runspec_azure.batch.client import connect

        return connect(facts)


PROVIDER = AzureBatchProvider()
