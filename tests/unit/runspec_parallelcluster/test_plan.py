"""A plan says which cluster is made, how it is updated, and which of its queues the job goes to."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_ec2 import ec2_catalogue
from runspec_jobs.provider import Scope, Source, Step
from runspec_jobs.provider.job_manifest import CONTEXT
from runspec_parallelcluster import PROVIDER, infrastructure
from runspec_parallelcluster.decision import decide
from runspec_parallelcluster.naming import TAG
from tests.support.slurm.parallelcluster_specs import RUN, facts, options, spec

SHARED = {"workspace": {"mount": "/workspace", "data": "s3://bucket/prefix"}}


def plan(
    cluster: Any = None, *, run: str = RUN, fields: Any = None, **settings: Any
) -> dict[str, Step]:
    of = spec(**({"cluster": cluster} if cluster else {}), **(fields or {}))
    return {step.id: step for step in PROVIDER.plan(of, run, facts(of, **settings))}


def made(cluster: Any = None, **settings: Any) -> dict[str, Any]:
    step = plan(cluster, **settings)["cluster"]
    found: dict[str, Any] = step.do.params["clusterConfiguration"]
    return found


def queues(cluster: Any = None, **settings: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made(cluster, **settings)["Scheduling"]["SlurmQueues"]
    return found


def words(cluster: Any = None, **settings: Any) -> list[str]:
    found: list[str] = plan(cluster, **settings)["job"].do.params["argv"]
    return found


def types(queue: dict[str, Any]) -> list[str]:
    return [one["InstanceType"] for one in queue["ComputeResources"][0]["Instances"]]


def test_the_cluster_comes_before_all_that_lies_on_it() -> None:
    ids = list(plan(storage=SHARED))

    assert ids[:3] == ["cluster", "head", "inside"]
    assert ids[-1] == "job"


@pytest.mark.parametrize(
    ("head_node", "platform"), [("m6i.large", "linux/amd64"), ("m6g.large", "linux/arm64")]
)
def test_an_image_is_built_for_the_machines_of_the_cluster(head_node: str, platform: str) -> None:
    wanted = spec(container={"build": {"context": "./image"}})
    where: dict[str, Any] = {
        "images": "r.example/team/jobs",
        "container": "podman",
        "head_node": head_node,
    }
    known = facts(wanted, **where)
    source = Source(f"sha256:{'1' * 64}", 2, 30)
    known = known._replace(sources={**known.sources, CONTEXT: source})

    (step,) = (step for step in PROVIDER.plan(wanted, RUN, known) if step.id == "image")

    assert step.do.params["platform"] == platform


def test_a_cluster_without_a_name_is_named_by_what_it_is() -> None:
    one, same, other = plan(), plan(run="other-000001"), plan(head_node="m6i.2xlarge")
    names = [p["cluster"].do.params["clusterName"] for p in (one, same, other)]

    assert names[0] == names[1] != names[2]
    assert "update" not in one


def named(**settings: Any) -> dict[str, Step]:
    of = spec()
    return {s.id: s for s in PROVIDER.plan(of, RUN, facts(of, cluster="training", **settings))}


def test_a_cluster_with_a_name_is_updated_where_it_differs() -> None:
    found = named(max_count=4)

    update = found["update"]
    assert update.do.operation == "update_cluster" and update.scope is Scope.SITE
    assert update.undo is None
    assert update.do.params == found["cluster"].do.params


def test_the_tag_changes_with_the_configuration_and_with_nothing_else() -> None:
    def tag(**settings: Any) -> str:
        found = infrastructure.configuration(
            decide(spec(), options(cluster="training", **settings))
        )
        return next(str(t["Value"]) for t in found["Tags"] if t["Key"] == TAG)

    assert tag() == tag() == tag(ssh_key="~/.ssh/id") != tag(max_count=20)


def test_stopping_the_fleet_is_part_of_the_plan_only_where_it_is_allowed() -> None:
    assert "stopFleet" not in named()["update"].do.params
    assert named(update="stop")["update"].do.params["stopFleet"] is True


@pytest.mark.parametrize(
    "strategy,word",
    [("drain", "DRAIN"), ("terminate", "TERMINATE"), ("stop", "COMPUTE_FLEET_STOP")],
)
def test_an_update_lets_jobs_end_unless_it_is_told_otherwise(strategy: str, word: str) -> None:
    assert made(update=strategy)["Scheduling"]["SlurmSettings"]["QueueUpdateStrategy"] == word


def test_undo_archives_file_systems_before_it_deletes_the_cluster() -> None:
    undo = plan(storage=SHARED)["cluster"].undo
    assert undo is not None

    calls = undo.params["calls"]

    assert [call["operation"] for call in calls] == ["archive", "delete_cluster"]
    assert calls[0]["params"]["folders"] == ["/workspace"]


@pytest.mark.parametrize(
    "settings", [{}, {"storage": SHARED, "archive": False}, {"storage": {"a": {"mount": "/a"}}}]
)
def test_where_nothing_is_archived_the_cluster_is_just_deleted(settings: dict[str, Any]) -> None:
    undo = plan(**settings)["cluster"].undo

    assert undo is not None and undo.operation == "delete_cluster"


@pytest.mark.parametrize(
    "capacity,names,partition",
    [
        ("on-demand", ["ondemand"], "ondemand"),
        ("spot", ["spot"], "spot"),
        ("spot-then-on-demand", ["spot", "ondemand"], "spot,ondemand"),
    ],
)
def test_capacity_makes_the_queues_and_picks_the_partition(
    capacity: str, names: list[str], partition: str
) -> None:
    cluster = {"capacity": capacity}

    assert [queue["Name"] for queue in queues(cluster)] == names
    assert f"--partition={partition}" in words(cluster)


def test_machines_fit_the_node_and_spot_machines_are_of_several_kinds() -> None:
    spot, firm = queues({"capacity": "spot-then-on-demand", "cpus": 16, "memory": "100GiB"})

    assert types(firm)[:3] == types(spot)[:3] == ["r5a.4xlarge", "r6a.4xlarge", "r6i.4xlarge"]
    assert spot["AllocationStrategy"] == "capacity-optimized"
    assert "AllocationStrategy" not in firm  # the default is the lowest price


def test_all_machines_of_a_queue_have_as_many_vcpus_and_gpus_and_the_first_ones_memory() -> None:
    """https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-multiple-instance-allocation-v3.html"""
    for cluster in ({}, {"cpus": 2, "memory": "4GiB"}, {"cpus": 8, "memory": "200GiB"}):
        machines = [ec2_catalogue().named(name) for name in types(queues(cluster)[0])]
        found = [m for m in machines if m is not None]

        assert len(found) > 1
        assert {(m.cpus, m.gpus) for m in found} == {(found[0].cpus, 0)}
        assert min(m.memory_gib or 0 for m in found) == found[0].memory_gib


@pytest.mark.parametrize(
    "cluster,settings",
    [
        ({"placement": "close"}, {}),
        ({}, {"efa": True}),
        ({}, {"placement_group": "mine"}),
        ({}, {"reservation": "cr-0123456789abcdef0"}),
    ],
)
def test_close_and_reserved_machines_are_of_one_type(
    cluster: dict[str, Any], settings: dict[str, Any]
) -> None:
    (machines,) = queues({"cpus": 4, **cluster}, **settings)[0]["ComputeResources"]

    assert len(machines.get("Instances", [machines.get("InstanceType")])) == 1


def test_machines_with_adapters_are_chosen_for_efa() -> None:
    (queue,) = queues({"nodes": 2, "cpus": 4}, efa=True)

    machine = ec2_catalogue().named(types(queue)[0])
    assert machine is not None and machine.fabric


def test_the_machines_have_the_architecture_of_the_head_node() -> None:
    for head, architecture in (("m7g.xlarge", "arm64"), ("m6i.xlarge", "x86_64")):
        machines = map(ec2_catalogue().named, types(queues(head_node=head)[0]))
        assert {m.architecture for m in machines if m} == {architecture}


def test_tasks_that_may_share_a_machine_share_its_gpus() -> None:
    fields = {"sweep": {"a": "1..8"}}
    step = plan({"gpus": 1, "gpu_type": "A100"}, fields=fields)["cluster"]
    (queue,) = step.do.params["clusterConfiguration"]["Scheduling"]["SlurmQueues"]

    assert types(queue) == ["p4d.24xlarge", "p4de.24xlarge"]


def test_a_job_of_more_nodes_than_usual_makes_a_larger_queue() -> None:
    assert queues({"nodes": 12})[0]["ComputeResources"][0]["MaxCount"] == 12
    assert queues({"nodes": 2})[0]["ComputeResources"][0]["MaxCount"] == 10


def test_close_nodes_are_in_a_placement_group() -> None:
    assert queues({"placement": "close"})[0]["Networking"]["PlacementGroup"] == {"Enabled": True}


def test_with_efa_there_is_a_word_on_placement_in_any_case() -> None:
    (queue,) = queues(efa=True)

    assert queue["ComputeResources"][0]["Efa"] == {"Enabled": True}
    assert queue["Networking"]["PlacementGroup"] == {"Enabled": False}


def test_a_new_type_of_machine_is_a_new_name_so_that_it_is_added_and_not_changed() -> None:
    one, other = queues(instance_types=["g5.xlarge"])[0], queues(instance_types=["g5.12xlarge"])[0]

    assert one["ComputeResources"][0]["Name"] != other["ComputeResources"][0]["Name"]


def test_the_queues_of_the_profile_are_all_there_whatever_the_spec_needs() -> None:
    there = {
        "cpu": {"instance_types": ["c6i.4xlarge"], "max_count": 4},
        "gpu": {"instance_types": ["g5.12xlarge"], "capacity": "spot", "spot_price": 4.5},
    }

    small, large = queues(queues=there), queues({"gpus": 4, "capacity": "spot"}, queues=there)

    assert small == large
    assert large[1]["ComputeResources"][0]["SpotPrice"] == 4.5
    assert "--partition=cpu" in words(queues=there)
    assert "--partition=gpu" in words({"gpus": 4, "capacity": "spot"}, queues=there)


def test_the_queue_that_the_settings_name_is_taken() -> None:
    there = {"a": {"instance_types": ["c6i.4xlarge"]}, "b": {"instance_types": ["c6i.4xlarge"]}}

    assert "--partition=b" in words(queues=there, queue="b")


def test_a_reservation_is_that_of_machines_bought_on_demand() -> None:
    spot, firm = queues({"capacity": "spot-then-on-demand"}, reservation="cr-0123456789abcdef0")

    target = {"CapacityReservationId": "cr-0123456789abcdef0"}
    assert firm["ComputeResources"][0]["InstanceType"] == "c7a.medium"
    assert "CapacityReservationTarget" not in spot and firm["CapacityReservationTarget"] == target


def test_the_disk_of_the_spec_is_that_of_the_machines() -> None:
    (queue,) = queues({"disk": "200GiB"})

    assert queue["ComputeSettings"] == {"LocalStorage": {"RootVolume": {"Size": 200}}}


def test_the_tier_of_the_disk_is_that_of_the_root_volume() -> None:
    """https://docs.aws.amazon.com/parallelcluster/latest/ug/Scheduling-v3.html"""
    (queue,) = queues({"disk": {"tier": "high"}})

    volume = {"Size": 32, "VolumeType": "gp3", "Iops": 16000, "Throughput": 1000}
    assert queue["ComputeSettings"] == {"LocalStorage": {"RootVolume": volume}}


def test_scratch_goes_back_to_where_it_came_from() -> None:
    (storage,) = made(storage=SHARED)["SharedStorage"]

    settings = storage["FsxLustreSettings"]
    assert settings["ImportPath"] == settings["ExportPath"] == "s3://bucket/prefix"
    assert settings["DeploymentType"] == "SCRATCH_2" and settings["StorageCapacity"] == 1200


def test_a_persistent_file_system_is_kept_equal_to_its_place_in_s3() -> None:
    kept = {"mount": "/w", "kind": "persistent", "throughput": 125, "data": "s3://bucket"}

    (storage,) = made(storage={"w": kept})["SharedStorage"]

    (association,) = storage["FsxLustreSettings"]["DataRepositoryAssociations"]
    assert association["AutoExportPolicy"] == ["NEW", "CHANGED", "DELETED"]
    assert association["BatchImportMetaDataOnCreate"] is True


def test_clusters_can_share_a_file_system_that_is_there() -> None:
    there = {"mount": "/data", "file_system": "fs-0123456789abcdef0"}

    (storage,) = made(storage={"data": there})["SharedStorage"]

    assert storage["FsxLustreSettings"] == {"FileSystemId": "fs-0123456789abcdef0"}


def test_a_file_system_is_a_shared_folder_of_its_name() -> None:
    mount = {"name": "w", "source": "shared://workspace/team", "target": "/job/w"}

    steps = plan(fields={"mounts": [mount]}, storage=SHARED)

    assert '"/workspace/team"' in steps["record"].do.params["content"]


def test_secrets_of_the_profile_are_in_no_configuration() -> None:
    """Credentials come from the environment, and a password of a spec is none of the cluster's business."""
    of = spec(secrets={"TOKEN": "hf"})
    given = facts(of, secrets={"hf": "env:HF"})

    steps = {step.id: step for step in PROVIDER.plan(of, RUN, given)}

    assert "HF" not in str(steps["cluster"]) and "env:HF" in str(steps["secrets"])


def test_a_cluster_that_is_there_is_only_looked_for() -> None:
    steps = {
        s.id: s
        for s in PROVIDER.plan(
            spec(), RUN, facts(spec(), manage=False, cluster="theirs", queue="theirs")
        )
    }

    assert "cluster" not in steps and "update" not in steps and "head" in steps
    assert "--partition=theirs" in steps["job"].do.params["argv"]


def test_a_head_node_that_is_known_is_not_even_looked_for() -> None:
    steps = plan(manage=False, host="192.0.2.1")

    assert next(iter(steps)) == "inside"
    assert not any("--partition" in word for word in steps["job"].do.params["argv"])


def test_uploads_to_two_clusters_are_different_steps() -> None:
    one, other = plan(max_count=4)["inside"], plan(max_count=8)["inside"]

    assert one.do.params["clusterName"] != other.do.params["clusterName"]
    assert one.undo is not None and one.undo.params["clusterName"] == one.do.params["clusterName"]


def test_planning_twice_gives_equal_plans() -> None:
    assert plan(storage=SHARED) == plan(storage=SHARED)


def test_a_large_sweep_is_split_by_the_size_of_arrays_in_the_profile() -> None:
    """Slurm's default is 1,001, which ParallelCluster leaves as it is."""
    sweep, settings = {"sweep": {"n": "1..1500"}, "max_parallel": 5}, {"MaxArraySize": "101"}

    default, smaller = plan(fields=sweep), plan(fields=sweep, slurm_settings=settings)

    assert [name for name in default if name.startswith("job")] == ["job", "job-1"]
    assert len([name for name in smaller if name.startswith("job")]) == 15
    last = default["job-1"].do.params
    assert last["after"] == {"$ref": "job.job"}
    assert f"--job-name={RUN}.1" in last["argv"]
    assert last["clusterName"] == default["job"].do.params["clusterName"]
