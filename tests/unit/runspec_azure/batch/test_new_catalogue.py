"""A new catalogue of VM sizes changes no run that is alive on Azure Batch, and is never a conflict."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from runspec_azure.resources import request, vm_sizes
from runspec_jobs.engine import start_run
from runspec_jobs.engine.clients import record_rates
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.load import registry
from runspec_jobs.load.inputs import PlanInputs
from runspec_jobs.plan import model
from runspec_jobs.provider import Client, Facts, State, Status
from runspec_jobs.state import run_record
from tests.support.azure.specs import options, spec

AZURE = registry.load("azure-batch")
JOB = b"apiVersion: runspec/v1\nname: n\nprovider: azure-batch\ncommand: [echo]\n"


def inputs(base: Path) -> PlanInputs:
    text, facts = SimpleNamespace(name="n", applied=JOB), Facts(options())
    found = SimpleNamespace(
        provider=AZURE, spec=spec(), facts=facts, text=text, base=base, mounted_runs={}
    )
    return cast("PlanInputs", found)


def size(made: model.Plan) -> str:
    (pool,) = [s for s in made.steps if "vmSize" in str(s.do.params)]
    return str(pool.do.params["body"]["vmSize"])


def planned(found: PlanInputs, token: str) -> model.Plan:
    return model.make_plan(found.provider, found.spec, token, found.facts)


class Running:
    def state(self, run: str) -> Status:
        return Status(State.RUNNING)


def test_a_live_run_keeps_its_size_and_its_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = inputs(tmp_path)
    made = planned(found, "abc123")
    machines = record_rates(AZURE, found.spec, found.facts, {})
    record = run_record.create(JOB, made, found.facts, tmp_path, "n", machines=machines)
    with record.open_journal(lambda _: None) as journal:
        for step in made.steps:
            journal.add("done", step=step.id, answer={})
    left = tuple(machine for machine in vm_sizes.current() if machine.name != size(made))
    monkeypatch.setattr(request, "current", lambda: left)

    anew = planned(found, "zzz999")
    client, reporter = cast("Client", Running()), cast("Reporter", SimpleNamespace())
    choice = start_run.judge_earlier(record, anew, client, found, reporter)

    assert size(anew) != size(made)
    assert choice is not None
    assert choice.message == f"run {record.run} is already running; starting no other"
    assert choice.record.plan == made
    (kept,) = record.machines["chosen"]
    assert (kept["name"], kept["region"]) == (size(made), "westeurope")
    assert kept["usd_hour"] > 0
