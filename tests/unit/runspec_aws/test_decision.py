"""What is decided about a job once: its machines, their vCPUs, and nodes that need a machine of their own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from runspec_aws.decision import decide
from runspec_aws.options import AwsOptions
from runspec_aws.resources import find_machines, known
from runspec_jobs.provider import Problem, Spec
from tests.support.aws.specs import PROFILE, problems, spec
from tests.support.root import ROOT

P5 = {"region": "us-east-1", "instance_types": ["p5.48xlarge"]}
SPOT = {"nodes": 2, "capacity": "spot"}


def most(wanted: Spec, **profile: Any) -> int:
    return decide(wanted, AwsOptions.model_validate({**PROFILE, **profile})).max_vcpus


def errors(wanted: Spec, **profile: Any) -> list[Problem]:
    return [p for p in problems(wanted, **profile) if p.severity == "error"]


def test_only_the_decision_and_the_checks_read_the_cluster_of_a_spec() -> None:
    """Everything else reads the decision, so that no two modules decide differently."""
    folder = ROOT / "providers" / "runspec_aws"

    readers = {f.name for f in folder.rglob("*.py") if "spec.cluster" in f.read_text()}

    assert readers == {"check.py", "decision.py"}


def test_nodes_with_machines_of_their_own_take_all_vcpus_of_these() -> None:
    """Four p5.48xlarge got 256 of 768 vCPUs, and waited for ever."""
    wanted = spec(cluster={"nodes": 4, "gpus": 8, "cpus": 16})

    assert most(wanted, **P5) == 4 * 192


def test_a_limit_of_the_profile_is_kept_and_the_error_says_what_is_needed() -> None:
    wanted = spec(cluster={"nodes": 4, "gpus": 8, "cpus": 16})

    (found,) = errors(wanted, **P5, max_vcpus=500)

    assert most(wanted, **P5, max_vcpus=500) == 500
    assert found.path == ("cluster", "nodes")
    assert found.what == ("4 machines of the type p5.48xlarge have 768 vCPUs, but max_vcpus is 500")
    assert "max_vcpus: 768" in (found.hint or "")
    assert errors(wanted, **P5, max_vcpus=768) == []


def test_a_limit_of_the_profile_is_kept_for_nodes_that_share_machines() -> None:
    """Forty nodes of 8 vCPUs raised a limit of 256 to 320."""
    wanted = spec(cluster={"nodes": 40, "cpus": 8, "capacity": "spot"})

    assert most(wanted, max_vcpus=256) == 256
    assert [p.path for p in errors(wanted, max_vcpus=256)] == [("cluster", "nodes")]


def test_nodes_that_fill_their_machines_badly_take_more_than_they_request() -> None:
    profile = {"instance_types": ["c6i.2xlarge"]}  # 8 vCPUs
    wanted = spec(cluster={"nodes": 60, "cpus": 5, "capacity": "spot"})

    assert most(wanted, **profile) == 60 * 8


def test_elastic_jobs_need_room_for_their_smallest_number_of_nodes() -> None:
    wanted = spec(cluster={"nodes": {"min": 2, "max": 40}, "cpus": 8})

    assert errors(wanted, max_vcpus=64) == []
    assert len(errors(wanted, max_vcpus=8)) == 1


def test_one_task_has_room_under_any_limit_on_parallel_tasks() -> None:
    wanted = spec(cluster={**SPOT, "cpus": 2}, launch="mpi", sweep={"a": "1..9"}, max_parallel=2)
    profile = {"instance_types": ["c6i.4xlarge"]}  # 16 vCPUs

    assert most(wanted, **profile) == 2 * 2 * 16


def test_a_single_node_above_the_limit_is_refused() -> None:
    (found,) = errors(spec(cluster={"cpus": 64}), max_vcpus=32)

    assert found.what == "the node requests 64 vCPUs, but max_vcpus is 32"
    assert found.path == ("cluster", "cpus")


@pytest.mark.parametrize(
    "cluster,profile,machine",
    [
        ({"gpus": 2}, {"region": "us-east-1"}, "g4dn.12xlarge"),  # two nodes fitted on 4 GPUs
        ({"gpus": 1, "cpus": 4}, {"instance_types": ["p4d.24xlarge"]}, "p4d.24xlarge"),
        ({}, {"instance_types": ["c6i.4xlarge", "c6i.large"]}, "c6i.4xlarge"),
        ({"cpus": 3}, {"instance_types": ["m5.4xlarge", "z9.huge"]}, "m5.4xlarge"),
    ],
)
def test_no_two_nodes_of_a_launcher_fit_on_one_spot_machine(
    cluster: dict[str, Any], profile: dict[str, Any], machine: str
) -> None:
    wanted = spec(cluster={**SPOT, **cluster}, launch="mpi")
    options = AwsOptions.model_validate({**PROFILE, **profile})

    decision = decide(wanted, options)
    assert decision.instance_types == (machine,)
    there = known(machine)
    assert there is not None
    assert decision.node.count_on(there) == 1


@pytest.mark.parametrize(
    "types,told",
    [
        (["z9.huge", "c6i.large"], "it is unknown how large z9.huge is"),
        (["c6i"], "all nodes have one instance type, and c6i is not one"),
        (["optimal"], "all nodes have one instance type, and optimal is not one"),
        (["c6i.large"], "c6i.large, the first of instance_types, does not hold a node: 4 vCPUs"),
    ],
)
def test_types_that_cannot_be_had_for_one_node_each_are_refused(
    types: list[str], told: str
) -> None:
    (found,) = errors(spec(cluster={**SPOT, "cpus": 4}, launch="mpi"), instance_types=types)

    assert told in found.what
    assert "instance_types" in (found.hint or "")


def test_a_gang_may_have_a_type_that_runspec_does_not_know() -> None:
    assert errors(spec(cluster={"nodes": 2}), instance_types=["z9.huge"]) == []


TYPES = st.lists(
    st.sampled_from(
        ["c6i.large", "c6i.8xlarge", "m7i.48xlarge", "g5.48xlarge", "p4d.24xlarge", "c5", "z9.x"]
    ),
    max_size=3,
    unique=True,
)
CLUSTERS = st.fixed_dictionaries(
    {},
    optional={
        "cpus": st.integers(1, 200),
        "memory": st.sampled_from(["1GiB", "20GiB", "500GiB"]),
        "gpus": st.integers(1, 8),
        "nodes": st.integers(2, 9),
    },
)


@settings(deadline=None)
@given(CLUSTERS, TYPES, st.sampled_from(["spot", "spot-then-on-demand"]))
def test_whatever_is_asked_for_it_is_refused_or_each_node_has_its_machine(
    cluster: dict[str, Any], types: list[str], capacity: str
) -> None:
    wanted = spec(cluster={"nodes": 2, **cluster, "capacity": capacity}, launch="mpi")
    options = AwsOptions.model_validate({**PROFILE, "instance_types": types})

    if [p for p in problems(wanted, instance_types=types) if p.severity == "error"]:
        return
    decision = decide(wanted, options)
    machines = [m for name in decision.instance_types for m in find_machines(name)]
    assert [decision.node.count_on(m) for m in machines] == [1]
    assert decision.max_vcpus >= wanted.cluster.nodes.max * (machines[0].cpus or 0)
