"""The Azure Batch provider, as the core sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from runspec.provider import Client, Facts, Options, Problem, Rehearsal, Spec, Step
from runspec_azure.batch import check, plan
from runspec_azure.batch.options import BatchOptions


class AzureBatchProvider:
    """Runs jobs on Azure Batch."""

    name = "azure-batch"
    options_model: type[Options] = BatchOptions

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        return check.problems(spec, facts)

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        return plan.steps(spec, run, facts)

    def first_profile(self) -> str:
        from runspec_azure.batch.first import PROFILE

        return PROFILE

    def rehearse(
        self, options: Mapping[str, Any], folder: Path, engine: str | None
    ) -> AbstractContextManager[Rehearsal]:
        from runspec_azure.batch.rehearsal import stage

        return stage(options, folder, engine)

    def connect(self, facts: Facts) -> Client:
        from runspec_azure.batch.client import connect

        return connect(facts)


PROVIDER = AzureBatchProvider()
