"""What an apply costs a provider: one plan, however it goes."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_jobs import api
from runspec_jobs.plan import model

SPEC = {"apiVersion": "runspec/v1", "name": "job", "provider": "local", "command": ["true"]}


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the names of the runs that the provider plans."""
    kind = type(api.load(SPEC).inputs.provider)
    plan = kind.plan
    found: list[str] = []

    def counted(self: Any, spec: Any, run: str, facts: Any) -> Any:
        found.append(run)
        return plan(self, spec, run, facts)

    monkeypatch.setattr(kind, "plan", counted)
    return found


@pytest.mark.process
def test_each_apply_plans_once_whether_it_starts_a_run_or_finds_one(planned: list[str]) -> None:
    run = api.apply(api.load(SPEC), detach=False)
    again = api.apply(api.load(SPEC))

    assert again == run
    assert planned[0] == run.id
    assert len(planned) == 2


def test_the_digest_of_a_run_is_that_of_its_preview() -> None:
    job = api.load(SPEC)
    found = job.inputs

    preview = api.plan(job)
    made = model.make_plan(found.provider, found.spec, "abc234", found.facts)

    assert made.digest == preview.digest == model.digest(preview.steps)
    assert made.run != preview.run
