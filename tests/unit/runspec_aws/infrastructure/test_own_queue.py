"""A job queue of the profile: what its environments can run, and what they would leave waiting."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_aws import check, plan
from runspec_aws.options import AwsOptions
from runspec_jobs.provider import Facts, Problem, Spec
from tests.support.aws.specs import PROFILE, spec

EC2: dict[str, Any] = {
    "name": "a",
    "type": "EC2",
    "max_vcpus": 64,
    "instance_types": ["c6i.4xlarge"],
}
SPOT: dict[str, Any] = {**EC2, "name": "b", "type": "SPOT"}
FARGATE: dict[str, Any] = {"name": "f", "type": "FARGATE", "max_vcpus": 64, "instance_types": []}
UNMANAGED: dict[str, Any] = {
    "name": "u",
    "type": "UNMANAGED",
    "max_vcpus": None,
    "instance_types": [],
}
GANG = {"nodes": 2}
MPI: dict[str, Any] = {"cluster": {"nodes": 2, "capacity": "spot"}, "launch": "mpi"}


def found(
    wanted: Spec, *environments: dict[str, Any], known: bool = True, **profile: Any
) -> list[Problem]:
    options = AwsOptions.model_validate({**PROFILE, "queue": "mine", **profile})
    survey = {"environments": list(environments)} if known else {}
    every = check.problems(wanted, Facts(options, survey=survey))
    return [p for p in every if "queue mine" in p.what]


def refused(wanted: Spec, *environments: dict[str, Any], **profile: Any) -> str:
    (problem,) = found(wanted, *environments, **profile)
    assert problem.severity == "error"
    assert problem.hint
    return f"{problem.what}; {problem.hint}"


def test_an_unchecked_queue_gets_a_note() -> None:
    (note,) = found(spec(cluster=GANG), known=False)

    assert note.severity == "note"
    assert note.what == "AWS was not asked whether this job can run in the queue mine"


def test_a_queue_that_is_not_there_is_an_error() -> None:
    assert "there is no job queue mine" in refused(spec())


@pytest.mark.parametrize("wanted", [spec(), spec(cluster=GANG), spec(sweep={"a": "1..9"})])
def test_a_job_that_an_environment_can_run_has_no_problem(wanted: Spec) -> None:
    assert found(wanted, EC2) == []


@pytest.mark.parametrize("environment", [SPOT, FARGATE, UNMANAGED])
def test_nodes_of_one_job_are_refused_where_they_never_run(environment: dict[str, Any]) -> None:
    told = refused(spec(cluster=GANG), environment)

    assert "AWS Batch never runs multi-node jobs" in told
    assert f"{environment['name']} ({environment['type']})" in told
    assert ("capacity: spot" in told) is (environment is SPOT)


def test_the_hint_for_spot_works() -> None:
    """The nodes become children of an array, which run on spot machines."""
    assert found(spec(cluster={**GANG, "capacity": "spot"}), SPOT) == []


def test_nodes_run_in_one_environment_of_several() -> None:
    (note,) = found(spec(cluster=GANG), SPOT, EC2)

    assert (note.severity, "not in b (SPOT)" in note.what) == ("note", True)


@pytest.mark.parametrize("fargate,environment", [(True, EC2), (False, FARGATE)])
def test_a_queue_with_environments_of_the_wrong_kind_is_refused(
    fargate: bool, environment: dict[str, Any]
) -> None:
    told = refused(spec(), environment, fargate=fargate)

    assert f"fargate: {str(not fargate).lower()}" in told


def test_the_machines_of_all_nodes_must_have_room() -> None:
    told = refused(spec(cluster={"nodes": 5}), EC2)

    assert "maxvCpus of the queue mine is 64, but a task needs 80 vCPUs" in told


def test_children_of_an_array_may_use_all_environments() -> None:
    wanted = spec(cluster={"nodes": 16, "cpus": 8, "capacity": "spot"})

    assert found(wanted, EC2, SPOT) == []
    assert "is 64, but a task needs 128" in refused(wanted, SPOT)


def test_one_node_must_fit_into_one_environment() -> None:
    small = {**EC2, "max_vcpus": 4}

    assert "is 4, but a task needs 8" in refused(spec(cluster={"cpus": 8}), small, small)


def test_a_node_that_no_machine_holds_is_refused() -> None:
    told = refused(spec(cluster={"cpus": 17}), EC2)

    assert "no instance type of the queue mine holds a node with 17 vCPUs" in told
    assert "c6i.4xlarge" in told


@pytest.mark.parametrize("types", [["optimal"], ["c6i.4xlarge", "z9.huge"], []])
def test_types_that_are_not_known_may_hold_anything(types: list[str]) -> None:
    assert found(spec(cluster={"cpus": 17}), {**EC2, "instance_types": types}) == []


def test_the_type_that_the_profile_names_must_be_in_the_queue() -> None:
    wanted = spec(cluster=GANG)

    told = refused(wanted, EC2, instance_types=["c6i.8xlarge"])

    assert "has c6i.4xlarge, and not c6i.8xlarge" in told
    assert found(wanted, {**EC2, "instance_types": ["c6i"]}, instance_types=["c6i.8xlarge"]) == []


@pytest.mark.parametrize("types", [["c6i"], ["c6i.4xlarge", "m6i.4xlarge"]])
def test_a_queue_of_several_types_needs_a_name_for_that_of_the_nodes(types: list[str]) -> None:
    environment = {**EC2, "instance_types": types}

    (note,) = found(spec(cluster=GANG), environment)

    assert note.severity == "note"
    assert "nodes get one instance type: name it with instance_types" in note.what
    assert found(spec(), environment) == []


def test_nodes_of_a_launcher_must_not_share_a_machine() -> None:
    told = refused(spec(**MPI), SPOT)

    assert "several fit on c6i.4xlarge" in told
    assert "cpus: 9" in told
    enough = spec(**{**MPI, "cluster": {**MPI["cluster"], "cpus": 9}})
    assert found(enough, SPOT) == []


def test_nodes_of_a_launcher_need_machines_of_known_size() -> None:
    told = refused(spec(**MPI), {**SPOT, "instance_types": ["optimal"]})

    assert "it is unknown how large optimal is" in told


def test_the_catalogue_of_runspec_chooses_no_type_for_the_queue() -> None:
    """A job for a queue of p5 machines named the cheapest type that runspec knew, and waited for ever."""
    options = AwsOptions.model_validate({**PROFILE, "queue": "mine"})
    steps = {s.id: s for s in plan.steps(spec(cluster={"nodes": 2}), "run-1", Facts(options))}
    named = options.model_copy(update={"instance_types": ("p5.48xlarge",)})
    other = {s.id: s for s in plan.steps(spec(cluster={"nodes": 2}), "run-1", Facts(named))}

    def container(step: Any) -> dict[str, Any]:
        (group,) = step.do.params["nodeProperties"]["nodeRangeProperties"]
        return dict(group["container"])

    assert "instanceType" not in container(steps["definition"])
    assert container(other["definition"])["instanceType"] == "p5.48xlarge"
