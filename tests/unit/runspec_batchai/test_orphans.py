"""What no record knows at Batch AI is found, and what is of others, or alive, is spared."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_batchai.orphans import run_of
from runspec_jobs.provider import Orphan, State
from tests.support.azure import batch_ai_specs
from tests.unit.runspec_batchai.test_client import Here, here as here  # a fixture

pytestmark = pytest.mark.slow  # each has a service of its own


@pytest.fixture
def unstored(here: Here) -> Here:
    """A client whose profile has no container: what lies in Blob is looked at elsewhere."""
    here.client.options = here.client.options.model_copy(update={"container": None})
    here.client.arm.options = here.client.store.options = here.client.options
    return here


def found(here: Here, runs: Any = (), made: Any = ()) -> list[Orphan]:
    return list(here.client.find_orphans(set(runs), set(made)))


def shown(litter: list[Orphan]) -> list[tuple[str, bool]]:
    return [(one.what.partition(" (")[0].split("-")[0], one.alive) for one in litter]


def test_a_forgotten_run_its_experiment_and_its_cluster_are_found_in_the_order_to_go(
    unstored: Here,
) -> None:
    unstored.make(batch_ai_specs.spec())
    unstored.until(State.SUCCEEDED)

    litter = found(unstored)

    assert shown(litter) == [
        ("run job", False),
        ("experiment runspec", False),
        ("cluster runspec", False),
    ]
    assert litter[0].run == "job-abc123"
    for one in litter:
        for request in one.remove:
            unstored.client.call(request)
    assert found(unstored) == []


def test_resources_on_record_are_no_orphans(unstored: Here) -> None:
    unstored.make(batch_ai_specs.spec())
    unstored.until(State.SUCCEEDED)
    texts = {
        text
        for step in batch_ai_specs.planned(batch_ai_specs.spec(), **unstored.settings).steps
        for text in step.do.params["path"].values()
    }

    assert found(unstored, {"job-abc123"}, texts) == []


def test_resources_of_a_live_job_are_marked_alive(unstored: Here) -> None:
    unstored.make(batch_ai_specs.spec(run="sleep 600"))
    unstored.until(State.RUNNING)

    assert [one.alive for one in found(unstored)] == [True, True, True]


def test_jobs_and_clusters_of_others_are_spared(unstored: Here) -> None:
    unstored.make(batch_ai_specs.spec(run="true"))
    unstored.until(State.SUCCEEDED)
    options, arm = unstored.client.options, unstored.client.arm
    where = (options.resource_group, options.workspace)
    user = {"adminUserName": "u", "adminUserPassword": "p"}
    cluster = {"properties": {"vmSize": "STANDARD_D1_V2", "userAccountSettings": user}}
    made = arm.maker.clusters.begin_create(*where, "runspec-of-mine", cluster).result()
    body = {
        "cluster": {"id": made.id},
        "nodeCount": 1,
        "customToolkitSettings": {"commandLine": "true"},
        "stdOutErrPathPrefix": "/tmp",
    }
    arm.maker.jobs.begin_create(
        *where, options.experiment, "job-abc999", {"properties": body}
    ).result()

    assert shown(found(unstored)) == [("run job", False), ("cluster runspec", False)]


def test_tasks_of_a_sweep_are_one_run(unstored: Here) -> None:
    unstored.make(batch_ai_specs.spec(sweep={"n": ["0", "1"]}, command=["true"]))
    unstored.until(State.SUCCEEDED)

    first = found(unstored)[0]

    assert [call.operation for call in first.remove] == ["Jobs_Delete", "Jobs_Delete"]


def test_a_variable_alone_makes_no_job_ours() -> None:
    class Job:
        name = "theirs"
        environment_variables = (type("V", (), {"name": "RUNSPEC_RUN", "value": "job-abc123"}),)

    assert run_of(Job) == ""
    Job.name = "job-abc123-00007"
    assert run_of(Job) == "job-abc123"
