"""A new catalogue, which chooses other machines, neither updates a cluster nor makes another of the same size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runspec_ec2 import ec2_catalogue
from runspec_jobs.document import reader
from runspec_jobs.engine import start_run
from runspec_jobs.engine.clients import record_rates
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.plan import model
from runspec_jobs.provider import Spec, State, Status
from runspec_jobs.provider.machines import Machine
from runspec_jobs.spec import validate
from runspec_jobs.state import run_record
from runspec_parallelcluster import PROVIDER, infrastructure, resources
from runspec_parallelcluster.decision import decide
from runspec_parallelcluster.lookup import Clusters
from runspec_parallelcluster.naming import is_same
from tests.support.slurm.parallelcluster_specs import RUN, Pcluster, facts, options, spec

Without = Callable[[Callable[[Machine], bool]], None]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[Without]:
    """Give a function that has planning use a catalogue without the machines of which a predicate is true."""
    here = ec2_catalogue()

    def use(gone: Callable[[Machine], bool]) -> None:
        left = tuple(machine for machine in here.machines if not gone(machine))
        monkeypatch.setattr(resources, "ec2_catalogue", lambda: here._replace(machines=left))
        resources.chosen.cache_clear()

    yield use
    resources.chosen.cache_clear()


JOB = b"""\
apiVersion: runspec/v1
name: n
provider: parallelcluster
command: [echo]
"""


def types(of: Spec, **settings: Any) -> list[str]:
    found = infrastructure.configuration(decide(of, options(**settings)))
    (resource,) = found["Scheduling"]["SlurmQueues"][0]["ComputeResources"]
    return [one["InstanceType"] for one in resource["Instances"]]


def test_machines_of_the_same_size_are_in_the_same_cluster(without: Without) -> None:
    of = spec(cluster={"cpus": 4, "memory": "8GiB"})
    before, name = types(of), infrastructure.name(decide(of, options()))

    without(lambda machine: machine.name in before[:3])

    assert types(of)[0] == before[3]
    assert infrastructure.name(decide(of, options())) == name


def test_machines_of_another_size_are_in_another_cluster(without: Without) -> None:
    """Nothing changes the first one: it stays, and `plan` names the new one with its price."""
    of = spec()
    name = infrastructure.name(decide(of, options()))

    without(lambda machine: machine.cpus == 1)

    assert infrastructure.name(decide(of, options())) != name


def test_a_cluster_with_a_name_keeps_its_machines_for_the_same_request(without: Without) -> None:
    of, pcluster = spec(), Pcluster()
    given = facts(of, cluster="training")
    clusters = Clusters(pcluster, lambda line: None)
    made = {step.id: step for step in PROVIDER.plan(of, RUN, given)}
    clusters.create(made["cluster"].do.params)
    before = types(of)

    without(lambda machine: machine.cpus == 1)
    anew = {step.id: step for step in PROVIDER.plan(of, RUN, given)}

    assert types(of) != before
    assert clusters.find(anew["update"]) == {"cluster": "training"}  # it was done: nothing changes


def test_another_request_changes_a_cluster_with_a_name_unless_its_machines_suffice() -> None:
    def configuration(cpus: int, **more: Any) -> dict[str, Any]:
        return infrastructure.configuration(
            decide(spec(cluster={"cpus": cpus, **more}), options(cluster="c"))
        )

    there = {tag["Key"]: tag["Value"] for tag in configuration(3)["Tags"]}

    assert is_same(there, configuration(4))  # of the same size
    assert not is_same(there, configuration(8))
    assert not is_same(there, configuration(3, memory="60GiB"))


def test_a_run_that_is_alive_keeps_its_machines_and_is_no_conflict(
    without: Without, tmp_path: Path
) -> None:
    of, _ = validate.parse_spec(reader.read(JOB))
    assert of is not None
    given = facts(of)
    text: Any = SimpleNamespace(name="n", applied=JOB)
    inputs: Any = SimpleNamespace(
        provider=PROVIDER, spec=of, facts=given, text=text, base=tmp_path, mounted_runs={}
    )
    made = model.make_plan(PROVIDER, of, "abc123", given)
    machines, before = record_rates(PROVIDER, of, given, {}), types(of)
    old = run_record.create(JOB, made, given, tmp_path, "n", machines=machines)
    with old.open_journal(lambda _: None) as journal:
        for step in made.steps:
            journal.add("done", step=step.id, answer={})

    without(lambda machine: machine.cpus == 1)
    anew = model.make_plan(PROVIDER, of, "zzz999", given)
    running: Any = SimpleNamespace(state=lambda run: Status(State.RUNNING))
    choice = start_run.judge_earlier(
        old, anew, running, inputs, cast("Reporter", SimpleNamespace())
    )

    assert anew.digest != made.digest
    assert choice is not None
    assert choice.message == f"run {old.run} is already running; starting no other"
    assert choice.record.plan == made
    assert [one["name"] for one in old.machines["chosen"]] == before


def test_types_that_the_profile_names_are_what_clusters_are_compared_by() -> None:
    names = {
        infrastructure.name(decide(spec(), options(instance_types=[name])))
        for name in ("m6i.large", "m5.large")
    }

    assert len(names) == 2
