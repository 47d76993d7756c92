"""What ParallelCluster takes minutes to refuse, or never does, is said before anything is made."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from runspec_jobs.diagnostics.problem import format_path
from tests.support.slurm.parallelcluster_specs import SUBNET, options, problems, spec

OTHER = "subnet-0123456789abcdef1"
NEW = {"mount": "/workspace"}
THERE = {"mount": "/data", "file_system": "fs-0123456789abcdef0"}
CPU: dict[str, Any] = {"instance_types": ["c6i.4xlarge"]}


def only(of: Any, **settings: Any) -> str:
    (found,) = problems(of, **settings)
    assert found.hint, found
    return f"{format_path(found.path)}: {found.what} / {found.hint}"


def queue(**fields: Any) -> dict[str, Any]:
    return {"queues": {"cpu": {**CPU, **fields}}}


def storage(**fields: Any) -> dict[str, Any]:
    return {"storage": {"workspace": {**NEW, **fields}}}


@pytest.mark.parametrize(
    "settings,words",
    [
        ({"region": None}, "has no `region`"),
        ({"subnets": None}, "has no `subnets`"),
        ({"key_pair": None}, "has no `key_pair`"),
        ({"os": "ubuntu2004"}, "did you mean 'ubuntu2404'"),
        ({"os": "centos7"}, "alinux2023"),
        ({"os": "rocky9"}, "build-image"),
        ({"tags": {"aws:name": "x"}}, "are reserved"),
        ({"slurm_settings": {"SuspendTime": "60"}}, "set by ParallelCluster"),
        ({"min_count": 12}, "min_count is 12, which is more than max_count, 10"),
        ({"efa": True, "instance_types": ["c6i.large"]}, "has no Elastic Fabric Adapter"),
        ({"queue": "gpu"}, "no queue 'gpu'"),
        ({"instance_types": ["p3.8xlarge"]}, "custom_ami"),
        ({"instance_types": ["c6i.large", "c6i.xlarge"]}, "2, 4 vCPUs"),
        ({"instance_types": ["c7g.large"]}, "c7g.large is arm64, but the head node m6i.xlarge is x86_64"),
        ({"instance_types": ["c6i.large", "c6i.large"]}, "named twice"),
    ],
)  # fmt: skip
def test_settings_that_no_cluster_can_have_are_refused(
    settings: dict[str, Any], words: str
) -> None:
    assert words in only(spec(), **settings)


@pytest.mark.parametrize(
    "settings,words",
    [
        ({"queues": {"GPU": CPU}}, "does not allow this name"),
        ({"queues": {"default": CPU}}, "does not allow this name"),
        ({"queues": {"a" * 26: CPU}}, "at most 25"),
        ({"queues": {f"q{n}": CPU for n in range(51)}}, "51 queues"),
        (queue(min_count=5, max_count=4), "more than max_count"),
        (queue(spot_price=1.5), "spot_price is set"),
        (queue(reservation="cr-0123456789abcdef0", reservation_group="arn:x"), "both set"),
        (
            queue(reservation="cr-0123456789abcdef0", instance_types=["c6i.large", "c7i.large"]),
            "has one instance type",
        ),
        (queue(gdr=True), "gdr needs"),
        (queue(settings={"Nodes": "x"}), "of a partition"),
        (queue(subnets=[SUBNET, OTHER], placement=True), "one availability zone"),
        ({**queue(subnets=[SUBNET, OTHER]), "storage": {"workspace": NEW}}, "is in one"),
        (queue(capacity="capacity-block", min_count=4, max_count=4), "none is set"),
        (
            queue(capacity="capacity-block", reservation="cr-0123456789abcdef0", max_count=4),
            "always run",
        ),
    ],
)  # fmt: skip
def test_queues_that_no_cluster_can_have_are_refused(settings: dict[str, Any], words: str) -> None:
    assert words in only(spec(), **settings)


def test_spot_machines_of_a_reservation_are_refused() -> None:
    of = spec(cluster={"capacity": "spot"})

    found = only(of, **queue(capacity="spot", reservation="cr-0123456789abcdef0"))

    assert "cannot use a capacity reservation" in found


@pytest.mark.parametrize(
    "settings,words",
    [
        (storage(size_gib=1000), "set size_gib: 1200"),
        (storage(size_gib=6000), "set size_gib: 7200"),
        (storage(throughput=125), "kind: persistent"),
        (storage(kind="persistent"), "no throughput"),
        (storage(kind="persistent", throughput=200), "200 MB/s/TiB"),
        (storage(mount="/opt/slurm"), "belongs to the system"),
        ({"storage": {"default": NEW}}, "called 'default'"),
        ({"storage": {"a": NEW, "b": {"mount": "/other"}}}, "2 new file systems"),
        ({"storage": {"a": NEW, "b": {**THERE, "mount": "/workspace"}}}, "both mounted"),
        ({"storage": {"a": NEW, "b": {**THERE, "mount": "/workspace/b"}}}, "one is inside the other"),
    ],
)  # fmt: skip
def test_file_systems_that_cannot_be_made_are_refused(settings: dict[str, Any], words: str) -> None:
    assert words in only(spec(), **settings)


@pytest.mark.parametrize(
    "settings",
    [
        storage(),
        storage(size_gib=4800, data="s3://bucket/prefix"),
        storage(kind="persistent", throughput=250, size_gib=2400, keep=True, compression=True),
        {"storage": {"a": NEW, "b": THERE}},
        queue(efa=True, instance_types=["c6i.32xlarge"], placement=True),
        queue(reservation="cr-0123456789abcdef0"),
        {"custom_ami": "ami-0123456789abcdef0", "instance_types": ["p3.8xlarge"]},
        {"instance_types": ["hpc7a.96xlarge"]},
        {"queues": {"gpu": {"instance_types": ["g5.xlarge"]}, "cpu": CPU}, "queue": "cpu"},
    ],
)  # fmt: skip
def test_settings_that_the_service_accepts_have_no_problem(settings: dict[str, Any]) -> None:
    assert problems(spec(), **settings) == []


@pytest.mark.parametrize(
    "cluster,settings,words",
    [
        ({"nodes": 12}, queue(max_count=8), "12 nodes, but the queue 'cpu' has 8"),
        ({"gpus": 1}, queue(), "no queue of the profile has large enough machines"),
        ({"gpus": 1}, {**queue(), "queue": "cpu"}, "too small for a node"),
        ({"cpus": 64}, queue(), "no queue of the profile"),
        ({"capacity": "spot"}, queue(), "with capacity spot"),
        ({"gpus": 1, "gpu_type": "V10"}, {}, "no EC2 instance type has a 'V10'"),
        ({"gpus": 1, "gpu_type": "Trainium"}, {}, "'Trainium' needs devices and drivers of Neuron"),
        ({"gpus": 16}, {}, "16, but the largest machine has 8"),
        ({"gpus": 1, "gpu_type": "A100"}, {}, "p4d.24xlarge, has 8"),
        ({"gpus": 1, "gpu_type": "V100"}, {}, "drivers in ParallelCluster's AMIs"),
        ({"gpus": 1, "gpu_type": "T4g"}, {}, "no EC2 instance type has a 'T4g'"),
    ],
)  # fmt: skip
def test_a_job_that_would_wait_for_ever_is_refused(
    cluster: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    assert words in "\n".join(p.what for p in problems(spec(cluster=cluster), **settings))


@pytest.mark.parametrize(("gpu_type", "hint"), [("V10", "did you mean"), ("Fury", "use one of")])
def test_a_gpu_that_no_machine_has_comes_with_a_hint(gpu_type: str, hint: str) -> None:
    (found,) = problems(spec(cluster={"gpus": 1, "gpu_type": gpu_type}))

    assert found.hint is not None and found.hint.startswith(hint)


def test_a_graviton_head_node_has_graviton_machines_and_a_note_about_the_image() -> None:
    notes = problems(spec(), severity="note", head_node="m7g.xlarge")

    assert problems(spec(), head_node="m7g.xlarge") == []
    assert "the machines are arm64 (Graviton)" in "\n".join(p.what for p in notes)


def test_a_faster_disk_gets_a_note_about_its_cost() -> None:
    wanted = spec(cluster={"disk": {"tier": "best"}})

    (note,) = [p for p in problems(wanted, severity="note") if p.path[-1] == "tier"]

    assert problems(wanted) == []
    assert "no total has it" in note.what


def test_a_type_that_the_catalogue_does_not_have_is_taken_to_be_large_enough() -> None:
    for cluster in ({"gpus": 4}, {"gpus": 1, "gpu_type": "T4"}, {"cpus": 500}):
        assert problems(spec(cluster=cluster), instance_types=["g99.48xlarge"]) == []


def test_too_many_gpus_are_refused_with_what_to_type() -> None:
    (found,) = problems(spec(cluster={"gpus": 1, "gpu_type": "A100"}))

    assert found.path == ("cluster", "gpus")
    assert found.hint == (
        "set gpus: 4 or more, choose another GPU, "
        "or set providers.parallelcluster.instance_types: [p4d.24xlarge]"
    )


def test_a_problem_points_to_the_setting_where_the_spec_has_it() -> None:
    own = {"parallelcluster": queue(min_count=5, max_count=4)}

    (found,) = problems(spec(providers=own), **queue(min_count=5, max_count=4))

    assert format_path(found.path) == "providers.parallelcluster.queues.cpu.min_count"


def test_a_problem_of_the_profile_is_one_of_the_provider() -> None:
    assert only(spec(), **queue(min_count=5, max_count=4)).startswith("provider: ")


def test_problems_of_the_librarys_schema_name_their_field() -> None:
    said = {"version": "3.16.1", "problems": [["HeadNode.Ssh.KeyName", "Not a valid string."]]}

    (found,) = problems(spec(), survey={"schema": said})

    assert "3.16.1: HeadNode.Ssh.KeyName: Not a valid string." in found.what


def test_an_unchecked_schema_gets_a_note() -> None:
    found = problems(spec(), "note", survey={})

    assert any("was not checked" in note.what for note in found)


def test_an_existing_cluster_needs_no_other_settings() -> None:
    assert problems(spec(), manage=False, region=None, key_pair=None, host="192.0.2.1") == []


def test_a_cluster_that_is_there_has_a_name_or_an_address() -> None:
    assert "but no cluster" in only(spec(), manage=False)
    assert problems(spec(), manage=False, cluster="theirs") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"cluster": "1st"},
        {"cluster": "a" * 61},
        {"subnets": ["subnet-x"]},
        {"custom_ami": "ami-1"},
        {"bucket": "s3://bucket"},
        {"storage": {"a": {"mount": "workspace"}}},
        {"storage": {"a": {"mount": "/../etc"}}},
        {"storage": {"a": {"mount": "/a", "data": "s3://b/"}}},
        {"storage": {"a": {**THERE, "size_gib": 1200}}},
        {"queues": {"cpu": {"spot_price": "free"}}},
        {"queues": {"cpu": {"capacity": "low"}}},
    ],
)
def test_malformed_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        options(**wrong)
