"""Specs and facts for tests of `azure-batch-ai`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_batchai import PROVIDER
from runspec_jobs.plan import model
from runspec_jobs.provider import Facts, Problem, Source, Spec
from runspec_jobs.testing import documents

ACCOUNT = {
    "subscription": "00000000-0000-0000-0000-000000000000",
    "location": "eastus",
    "storage_account": "acct",
    "container": "jobs",
    "file_share": "logs",
    "ssh_public_key": "ssh-ed25519 AAAA",
    "secrets": {"storage-key": "env:STORAGE_KEY"},
}


def spec(**fields: Any) -> Spec:
    head = {"apiVersion": "runspec/v1", "name": "job", "provider": "azure-batch-ai"}
    fields = fields if "run" in fields else {"command": ["echo", "hi"], **fields}
    found, problems = documents.parse_spec({**head, **fields})
    assert found is not None, problems
    return found


def facts(of: Spec, **settings: Any) -> Facts:
    options = documents.merge(ACCOUNT, settings)
    sources = {m.name: Source("sha256:" + "5" * 64, 3, 4096) for m in of.mounts}
    model = PROVIDER.options_model.model_validate(options)
    wanted = of.container.requirements
    lines = tuple(wanted) if isinstance(wanted, tuple) else ()
    return Facts(model, sources, lines)


def problems(of: Spec, severity: str = "error", **settings: Any) -> list[Problem]:
    return [p for p in PROVIDER.check(of, facts(of, **settings)) if p.severity == severity]


def planned(of: Spec, **settings: Any) -> model.Plan:
    assert problems(of, **settings) == []
    return model.make_plan(PROVIDER, of, "abc123", facts(of, **settings))


def properties(of: Spec, step: str = "job", **settings: Any) -> Mapping[str, Any]:
    (found,) = [s for s in planned(of, **settings).steps if s.id == step]
    body: Mapping[str, Any] = found.do.params["body"]["properties"]
    return body
