"""A new catalogue of machines changes no run that is alive, and is never a conflict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from runspec_aws import resources
from runspec_aws.options import AwsOptions
from runspec_ec2 import ec2_catalogue
from runspec_jobs.document import reader
from runspec_jobs.engine import start_run
from runspec_jobs.engine.clients import record_rates
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Conflict
from runspec_jobs.load import registry
from runspec_jobs.load.inputs import PlanInputs
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Capacity,
    Client,
    Facts,
    State,
    Status,
)
from runspec_jobs.spec import validate
from runspec_jobs.state import run_record
from runspec_jobs.state.run_record import Record
from tests.support.aws.specs import PROFILE

JOB = b"apiVersion: runspec/v1\nname: n\nprovider: aws-batch\ncommand: [echo, %s]\n"
AWS = registry.load("aws-batch")
THERE = {**PROFILE, "region": "us-east-1"}  # a region with prices


def inputs(word: bytes = b"one") -> PlanInputs:
    text = JOB % word
    spec, problems = validate.parse_spec(reader.read(text))
    assert spec is not None, problems
    facts = Facts(AwsOptions.model_validate(THERE))
    own = SimpleNamespace(name="n", applied=text)
    found = SimpleNamespace(
        provider=AWS, spec=spec, facts=facts, text=own, base=Path(), mounted_runs={}
    )
    return cast("PlanInputs", found)


def types(made: model.Plan) -> list[str]:
    (found,) = [s for s in made.steps if s.id == "environment-ec2"]
    return list(found.do.params["computeResources"]["instanceTypes"])


def planned(found: PlanInputs, token: str) -> model.Plan:
    return model.make_plan(found.provider, found.spec, token, found.facts)


@pytest.fixture
def alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Give the record of a run that was planned with the catalogue of this package, and is alive."""
    monkeypatch.chdir(tmp_path)
    found = inputs()
    made = planned(found, "abc123")
    machines = record_rates(AWS, found.spec, found.facts, {})
    text = found.text.applied
    record = run_record.create(text, made, found.facts, tmp_path, "n", machines=machines)
    with record.open_journal(lambda _: None) as journal:
        for step in made.steps:
            journal.add("done", step=step.id, answer={})
    return record


@pytest.fixture
def newer(alive: Record, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have planning use a catalogue without the machines that are the cheapest ones now."""
    here = ec2_catalogue()
    gone = set(types(alive.plan))
    left = tuple(machine for machine in here.machines if machine.name not in gone)
    fresh = here._replace(version="2099-01-01", machines=left)
    monkeypatch.setattr(resources, "ec2_catalogue", lambda: fresh)
    resources.chosen.cache_clear()
    yield
    resources.chosen.cache_clear()


class Running:
    def state(self, run: str) -> Status:
        return Status(State.RUNNING)


def apply_again(old: Record, found: PlanInputs) -> start_run.Choice | None:
    client, reporter = cast("Client", Running()), cast("Reporter", SimpleNamespace())
    return start_run.judge_earlier(old, planned(found, "zzz999"), client, found, reporter)


@pytest.mark.usefixtures("newer")
def test_the_same_spec_with_a_new_catalogue_starts_nothing(alive: Record) -> None:
    found = inputs()

    assert not set(types(planned(found, "zzz999"))) & set(types(alive.plan))
    choice = apply_again(alive, found)
    assert choice is not None
    assert choice.message == f"run {alive.run} is already running; starting no other"
    assert choice.record.plan == alive.plan  # it keeps its machines


@pytest.mark.usefixtures("newer")
def test_another_spec_is_a_conflict_as_ever(alive: Record) -> None:
    with pytest.raises(Conflict, match="is running with another spec"):
        apply_again(alive, inputs(b"two"))


@pytest.mark.usefixtures("newer")
def test_the_record_keeps_the_catalogue_and_the_order_of_machines(alive: Record) -> None:
    kept = alive.machines

    assert [one["name"] for one in kept["chosen"]] == types(alive.plan)
    assert all(one["usd_hour"] > 0 and one["region"] == "us-east-1" for one in kept["chosen"])
    assert kept["catalogue"] == f"on demand in us-east-1, {ec2_catalogue().version}"


def test_prices_are_in_no_plan(alive: Record) -> None:
    text = (alive.folder / "plan.json").read_text()

    prices = {str(one["usd_hour"]) for one in alive.machines["chosen"]}
    assert prices
    assert not [price for price in prices if price in text]


def test_a_record_of_an_earlier_version_names_no_machines(alive: Record) -> None:
    file = alive.folder / "facts.json"
    found = json.loads(file.read_text())
    del found["machines"]
    file.write_text(json.dumps(found))

    assert alive.machines == {}
    assert alive.read_facts(AWS).options == AwsOptions.model_validate(THERE)


def test_nodes_of_slurm_have_no_machines_on_record_unless_the_profile_has_a_price() -> None:
    """The user's own price is exact: it is no limit for spot machines, as a price on demand would be."""
    spec = inputs().spec.model_copy(update={"provider": "slurm"})
    spot = spec.cluster.model_copy(update={"capacity": Capacity.SPOT})
    spec = spec.model_copy(update={"cluster": spot})
    slurm = registry.load("slurm")
    facts = Facts(slurm.options_model())

    assert record_rates(slurm, spec, facts, {}) is None
    kept = record_rates(slurm, spec, facts, {"slurm": 1.5})
    assert kept is not None
    assert (kept["prices"], kept["spot"]) == ({"slurm": 1.5}, False)
