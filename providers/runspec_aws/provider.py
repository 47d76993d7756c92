"""The AWS Batch provider, as the core sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runspec.provider import Client, Facts, Options, Problem, Spec, Step
from runspec_aws import check, plan
from runspec_aws.options import AwsOptions


class AwsBatchProvider:
    """Runs jobs on AWS Batch."""

    name = "aws-batch"
    options_model: type[Options] = AwsOptions

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        return check.problems(spec, facts)

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        return plan.steps(spec, run, facts)

    def connect(self, facts: Facts) -> Client:
        from runspec_aws.client import connect

        return connect(facts)


PROVIDER = AwsBatchProvider()
