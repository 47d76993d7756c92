"""The AWS Batch provider, as the core uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from runspec_aws import check, plan
from runspec_aws.decision import decide_shape
from runspec_aws.options import AwsOptions
from runspec_aws.resources import asks_region, with_offers
from runspec_aws.store.layout import store
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
from runspec_jobs.provider.spec_checks import ends_as_a_whole, has_several_tasks
from runspec_jobs.provider.types import Emulation, Exported, ForeignFile, Imported


class AwsBatchProvider:
    """Runs jobs on AWS Batch."""

    name = "aws-batch"
    options_model: type[Options] = AwsOptions

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        return check.problems(spec, with_offers(facts))

    def survey(self, spec: Spec, options: Any) -> Mapping[str, Any]:
        if not (options.queue or asks_region(options)):
            return {}  # runspec makes the environments, and knows what they are
        from runspec_aws import discover

        return discover.survey(options) if options.queue else discover.offers(options)

    def saves_place(self, spec: Spec, facts: Facts) -> str | None:
        options: AwsOptions = facts.options
        return store(options) if options.bucket and options.files == "role" else None

    conditions = ("succeeded",)  # a job whose parent has failed fails
    most_parents = 20  # https://docs.aws.amazon.com/batch/latest/userguide/job_dependencies.html

    def waiting_place(self, spec: Spec, facts: Facts) -> str | None:
        options: AwsOptions = facts.options
        # With signed URLs, nothing in a job could read how the jobs before it have ended.
        signed = options.files == "signed"
        return f"aws-batch:{options.region}" if options.region and not signed else None

    def tells_end(self, spec: Spec, condition: str) -> bool:
        return ends_as_a_whole(spec)

    def has_job_per_task(self, spec: Spec) -> bool:
        return has_several_tasks(spec) and decide_shape(spec).nodes == 1

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        return plan.steps(spec, run, with_offers(facts))

    def offer(self, spec: Spec, facts: Facts, listed: ListedPrices = NOT_READ) -> Offer:
        from runspec_aws import offer

        return offer.offer(spec, with_offers(facts), listed)

    def policy(self, steps: Iterable[Step], options: Any, *, of_job: bool) -> Mapping[str, Any]:
        from runspec_aws import policy

        return (policy.job_policy if of_job else policy.policy)(steps, options)

    def price_list(self, options: Any) -> PriceList | None:
        return PriceList("ec2", options.region) if options.region else None

    def read_prices(self, options: Any) -> ListedPrices:
        from runspec_aws import price_list

        return price_list.read(options)

    reads = "job definitions of AWS Batch, as JSON or in templates of CloudFormation"

    def imports(self, job: ForeignFile, cluster: ForeignFile | None) -> Imported:
        from runspec_aws.importing.conversion import convert

        return convert(job, cluster)

    def first_profile(self) -> str:
        from runspec_aws.options import PROFILE_TEMPLATE

        return PROFILE_TEMPLATE

    @property
    def setup_model(self) -> type[Options]:
        from runspec_aws.setup.options import AwsSetup

        return AwsSetup

    def survey_account(self, options: Any) -> Mapping[str, Any]:
        from runspec_aws.setup import survey

        return survey.survey(options)

    def plan_setup(self, options: Any, survey: Mapping[str, Any], setup: str) -> Setup:
        from runspec_aws.setup import steps

        return steps.plan(options, survey, setup)

    def export_setup(self, setup: Setup) -> Exported:
        from runspec_aws.setup import template

        return template.export(setup)

    def setup_policy(self, options: Any) -> Mapping[str, Any]:
        from runspec_aws.setup import rights

        return rights.make_policy(options)

    def connect_setup(self, options: Any, survey: Mapping[str, Any], setup: str) -> SetupClient:
        from runspec_aws.setup.client import connect

        return connect(options, survey, setup)

    def examine(self, options: Any) -> Iterable[Finding]:
        from runspec_aws.doctor import examine

        return examine(options)

    def examine_job(self, spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterable[Finding]:
        from runspec_aws.doctor import examine_job

        return examine_job(spec, with_offers(facts), steps)

    def doctor_policy(self, options: Any) -> Mapping[str, Any]:
        from runspec_aws import policy

        return policy.doctor_policy(options)

    def probes(self, options: Any) -> Sequence[Probe]:
        from runspec_aws.probes import beliefs

        return beliefs.probes(options)

    def fill(self, stage: Emulation, container: str, folder: Path) -> None:
        from runspec_aws.emulator import fill

        fill(stage, container, folder)

    def rehearse(
        self, options: Mapping[str, Any], folder: Path, engine: str | None
    ) -> AbstractContextManager[Emulation]:
        from runspec_aws.emulator import stage

        return stage(options, folder, engine)

    def connect(self, facts: Facts) -> Client:
        from runspec_aws.client import connect

        return connect(facts)


PROVIDER = AwsBatchProvider()
