"""Specs for Azure Batch, and an account that is nobody's."""

from __future__ import annotations

from typing import Any

from runspec_azure.batch import PROVIDER
from runspec_azure.batch.decision import Decision, decide
from runspec_azure.batch.options import BatchOptions
from runspec_jobs.provider import Facts, Problem, Source, Spec
from runspec_jobs.testing import documents

PROFILE: dict[str, Any] = {
    "batch_url": "https://jobs.westeurope.batch.azure.com",
    "storage_account": "jobs",
    "storage_key": "env:STORAGE_KEY",
    "container": "jobs",
    "pool_allocation": "user-subscription",
}
IDENTITY = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/g/providers/"
    "Microsoft.ManagedIdentity/userAssignedIdentities/jobs"
)
SHARED = {"name": "w", "source": "shared://work/a", "target": "/w"}
STORE = {"name": "d", "source": "store://sets/d", "target": "/d"}


def spec(**fields: Any) -> Spec:
    job: dict[str, Any] = {"apiVersion": "runspec/v1", "name": "n", "provider": "azure-batch"}
    job |= {} if "run" in fields else {"command": ["echo"]}
    found, problems = documents.parse_spec(documents.merge(job, fields))
    assert found is not None, problems
    return found


def options(**profile: Any) -> BatchOptions:
    return BatchOptions.model_validate({**PROFILE, **profile})


def decision(wanted: Spec, survey: dict[str, Any] | None = None, /, **profile: Any) -> Decision:
    return decide(wanted, Facts(options(**profile), survey=survey or {}))


def problems(wanted: Spec, survey: dict[str, Any] | None = None, **profile: Any) -> list[Problem]:
    sources = {m.name: Source("sha256:0", 1, 1) for m in wanted.mounts}
    return list(PROVIDER.check(wanted, Facts(options(**profile), sources, survey=survey or {})))


def errors(wanted: Spec, survey: dict[str, Any] | None = None, **profile: Any) -> list[Any]:
    return [p.path for p in problems(wanted, survey, **profile) if p.severity == "error"]


def notes(wanted: Spec, survey: dict[str, Any] | None = None, **profile: Any) -> list[Any]:
    return [p.path for p in problems(wanted, survey, **profile) if p.severity == "note"]
