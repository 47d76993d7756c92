"""Machines: which jobs share one, how many may start, and what waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.emulators.aws.stand import Stand, container, until

pytestmark = pytest.mark.process

Make = Callable[..., Stand]
PROGRESSIVE = {"allocationStrategy": "BEST_FIT_PROGRESSIVE"}
SPOT = {"type": "SPOT", "allocationStrategy": "SPOT_PRICE_CAPACITY_OPTIMIZED"}
TOO_LARGE = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
ABOVE_MAX = "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE"


def placed(make: Make, *, choice: str = "smallest", **resources: Any) -> Stand:
    stand = make(instance_choice=choice)
    stand.environment(**resources)
    stand.queue()
    return stand


def machine(stand: Stand, job_id: str) -> str:
    return str(stand.reach(job_id, "RUNNING")["container"]["containerInstanceArn"])


def waiting(stand: Stand, job_id: str) -> str:
    """Give why a job stays RUNNABLE."""
    until(lambda: "statusReason" in stand.job(job_id))
    job = stand.job(job_id)
    assert job["status"] == "RUNNABLE"
    return str(job["statusReason"])


def sized(stand: Stand, vcpus: int, script: str = "sleep 60") -> str:
    size = [{"type": "VCPU", "value": str(vcpus)}, {"type": "MEMORY", "value": "64"}]
    definition = stand.define(["sh", "-c", script], resourceRequirements=size)
    return stand.submit(definition)


def gang(stand: Stand, count: int, **more: Any) -> str:
    group = {"targetNodes": "0:", "container": container(["sleep", "60"], **more)}
    properties = {"numNodes": count, "mainNode": 0, "nodeRangeProperties": [group]}
    stand.batch.register_job_definition(
        jobDefinitionName="gang", type="multinode", nodeProperties=properties
    )
    return stand.submit("gang")


def test_jobs_share_a_machine_as_long_as_it_holds_them(make: Make) -> None:
    stand = placed(make)  # m5.large: 2 vCPUs

    first, second, third = (machine(stand, sized(stand, 1)) for _ in range(3))

    assert first == second != third


def test_children_on_one_machine_have_one_address(make: Make) -> None:
    stand = placed(make)
    parent = stand.sh("sleep 60", arrayProperties={"size": 3})

    for n in range(3):
        stand.reach(f"{parent}:{n}", "RUNNING")

    jobs = stand.server.world.jobs
    children = [jobs.get(f"{parent}:{n}") for n in range(3)]
    one, other, third = (child.attempts[-1].address for child in children if child)
    assert one == other != third


def test_any_type_may_come_of_those_that_hold_a_job(make: Make) -> None:
    stand = placed(make, choice="largest", instanceTypes=["m5.large", "m5.xlarge"])

    machines = {machine(stand, sized(stand, 2)) for _ in range(2)}

    assert len(machines) == 1  # m5.xlarge: 4 vCPUs


def test_a_machine_ends_with_the_last_job_on_it(make: Make) -> None:
    stand = placed(make, maxvCpus=2)
    first = sized(stand, 2)
    before = machine(stand, first)
    second = sized(stand, 2)

    stand.batch.terminate_job(jobId=first, reason="x")

    assert machine(stand, second) != before
    assert len(stand.server.world.environments["ce"].instances) == 1


@pytest.mark.parametrize("resources,runs", [({}, False), (PROGRESSIVE, True), (SPOT, True)])
def test_best_fit_never_exceeds_the_most_vcpus_and_others_do_by_one_machine(
    make: Make, resources: dict[str, Any], runs: bool
) -> None:
    stand = placed(make, instanceTypes=["m5.xlarge"], maxvCpus=3, **resources)

    job_id = sized(stand, 1)

    if not runs:
        assert waiting(stand, job_id).startswith(ABOVE_MAX)
        return
    shares = [machine(stand, job_id), *(machine(stand, sized(stand, 1)) for _ in range(3))]
    assert len(set(shares)) == 1
    assert stand.job(sized(stand, 1))["status"] != "RUNNING"


def test_nodes_have_machines_of_their_own_which_nobody_shares(make: Make) -> None:
    stand = placed(make, instanceTypes=["m5.xlarge"], maxvCpus=12)
    job_id = gang(stand, 2)

    nodes = {machine(stand, f"{job_id}#{n}") for n in range(2)}
    other = machine(stand, sized(stand, 1))

    assert len(nodes) == 2
    assert other not in nodes


@pytest.mark.parametrize("strategy", [{}, PROGRESSIVE])
def test_the_machines_of_all_nodes_count_and_not_what_the_nodes_request(
    make: Make, strategy: dict[str, Any]
) -> None:
    """Two nodes request 2 vCPUs together, and get 8."""
    stand = placed(make, instanceTypes=["m5.xlarge"], maxvCpus=7, **strategy)

    job_id = gang(stand, 2)

    assert waiting(stand, job_id).startswith(ABOVE_MAX)


def test_the_instance_type_of_nodes_must_be_in_the_environment(make: Make) -> None:
    stand = placed(make, instanceTypes=["m5.large", "c5"])

    wrong = gang(stand, 2, instanceType="m5.xlarge")
    assert waiting(stand, wrong).startswith(TOO_LARGE)
    stand.batch.terminate_job(jobId=wrong, reason="x")

    assert machine(stand, f"{gang(stand, 2, instanceType='c5.large')}#1")


def test_nodes_wait_for_ever_for_spot_machines(make: Make) -> None:
    stand = placed(make, **SPOT)

    job_id = gang(stand, 2)
    stand.reach(job_id, "RUNNABLE")
    until(lambda: stand.server.world.queues["queue"].waiting)

    assert stand.job(job_id).get("statusReason") is None
    assert stand.job(job_id)["status"] == "RUNNABLE"


def test_nodes_run_on_the_on_demand_machines_of_a_queue_that_has_spot_as_well(make: Make) -> None:
    stand = make()
    stand.environment("spot", **SPOT)
    stand.environment()
    stand.queue("queue", "spot", "ce")

    job_id = gang(stand, 2)

    assert "/ce/" in machine(stand, f"{job_id}#0")
