"""Clusters grow, shrink, lose nodes and give them to jobs, all at once or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

from tests.emulators.batch_ai.hand import PLACE, SHARE, USER, Hand, alive, code, until

WAIT = "until [ -e $AZ_BATCHAI_JOB_MOUNT_ROOT/logs/go ]; do sleep 0.02; done"


def go(hand: Hand) -> None:
    (hand.folder / "storage/account/logs").mkdir(parents=True, exist_ok=True)
    (hand.folder / "storage/account/logs/go").touch()


def scale(hand: Hand, **manual: Any) -> Any:
    return hand.client.clusters.update(
        *PLACE, "cluster", {"properties": {"scaleSettings": {"manual": manual}}}
    )


def cluster(hand: Hand) -> Any:
    return hand.client.clusters.get(*PLACE, "cluster")


def steady(hand: Hand, nodes: int) -> Any:
    """Return the cluster when it has so many nodes and no more are on their way."""

    def found() -> Any:
        now = cluster(hand)
        done = now.allocation_state == "steady" and now.current_node_count == nodes
        return now if done else None

    return until(found)


def test_a_cluster_is_resizing_until_its_nodes_are_there(make: Callable[..., Hand]) -> None:
    hand = make(resize_s=0.3)
    hand.ready(0)

    began = scale(hand, targetNodeCount=2)
    done = steady(hand, 2)

    assert (began.allocation_state, began.current_node_count) == ("resizing", 0)
    assert done.allocation_state_transition_time > began.allocation_state_transition_time
    assert until(lambda: hand.count("cluster", "idle") == 2)
    assert [
        login.port
        for login in hand.client.clusters.list_remote_login_information(*PLACE, "cluster")
    ] == [
        50000,
        50001,
    ]


def test_defaults_are_told(hand: Hand) -> None:
    found = hand.cluster("plain", 0)

    image = found.virtual_machine_configuration.image_reference
    assert (found.vm_priority, image.offer) == ("dedicated", "UbuntuServer")
    assert found.scale_settings.manual.node_deallocation_option == "requeue"


def test_autoscale_follows_the_jobs_up_to_its_limit_and_back(make: Callable[..., Hand]) -> None:
    auto = {"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 2}}
    hand = make().ready(0, scaleSettings=auto)
    for name in "abc":
        hand.submit(WAIT, name)

    most = until(lambda: steady(hand, 2))
    until(lambda: hand.count("cluster", "running") == 2)
    states = sorted(hand.job(name).execution_state for name in "abc")
    go(hand)

    assert most.scale_settings.auto_scale.initial_node_count == 0
    assert states == ["queued", "running", "running"]
    assert all(hand.over(name).execution_state == "succeeded" for name in "abc")
    assert steady(hand, 0)


def test_a_job_waits_until_it_gets_all_its_nodes(hand: Hand) -> None:
    hand.submit("echo $AZ_BATCH_HOST_LIST; cat $AZ_BATCHAI_MPI_HOST_FILE", nodes=2)
    before = hand.job().execution_state
    scale(hand, targetNodeCount=2)

    done = hand.over()

    hosts, *file = hand.text().split("\n")[:-1]
    assert (before, done.execution_state) == ("queued", "succeeded")
    assert file == [f"{host} slots=1 max-slots=1" for host in hosts.split(",")]
    assert len(set(hosts.split(","))) == 2


def test_jobs_go_by_priority_and_then_by_age(hand: Hand) -> None:
    order = "echo $0 >>$AZ_BATCHAI_JOB_MOUNT_ROOT/logs/order"
    hand.submit(WAIT, "first")
    until(lambda: hand.job("first").execution_state == "running")
    for name, priority in (("a", "low"), ("b", "normal"), ("c", "high"), ("d", "high")):
        hand.submit(order.replace("$0", name), name, schedulingPriority=priority)
    go(hand)

    for name in "abcd":
        hand.over(name)

    assert (hand.folder / "storage/account/logs/order").read_text() == "c\nd\nb\na\n"


def test_a_preempted_node_is_replaced_and_its_job_runs_again(make: Callable[..., Hand]) -> None:
    hand = make().ready(1, vmPriority="lowpriority")
    hand.submit(f"echo run >>$AZ_BATCHAI_JOB_MOUNT_ROOT/logs/runs; {WAIT}")
    runs = hand.folder / "storage/account/logs/runs"
    until(lambda: runs.exists() and runs.read_text() == "run\n")
    segment = hand.job().job_output_directory_path_segment

    lost = hand.stand.control("POST", "preempt", {"job": "job"})
    until(lambda: runs.read_text() == "run\nrun\n")
    go(hand)

    done = hand.over()
    assert done.execution_state == "succeeded"
    assert done.job_output_directory_path_segment == segment
    assert lost["node"] not in {node["id"] for node in hand.stand.control("GET", "nodes")}
    assert [job["runs"] for job in hand.stand.control("GET", "jobs")] == [2]


def test_low_priority_gives_no_more_nodes_than_there_are(make: Callable[..., Hand]) -> None:
    hand = make(capacity=1).ready(3, vmPriority="lowpriority")
    short = steady(hand, 1)

    hand.stand.control("PUT", "settings", {"capacity": 3})

    assert short.scale_settings.manual.target_node_count == 3
    assert steady(hand, 3)


@pytest.mark.parametrize(
    ("option", "state", "runs"),
    [("requeue", "queued", 1), ("terminate", "failed", 1), ("waitforjobcompletion", "running", 1)],
)
def test_the_deallocation_option_decides_about_jobs_on_removed_nodes(
    hand: Hand, option: str, state: str, runs: int
) -> None:
    hand.submit(WAIT)
    until(lambda: hand.job().execution_state == "running")

    scale(hand, targetNodeCount=0, nodeDeallocationOption=option)

    if state == "running":
        go(hand)
        assert hand.over().execution_state == "succeeded"
    else:
        assert until(lambda: hand.job().execution_state == state)
    assert steady(hand, 0)
    assert [job["runs"] for job in hand.stand.control("GET", "jobs")] == [runs]


def test_a_setup_task_runs_on_every_node_before_any_job(make: Callable[..., Hand]) -> None:
    task = {
        "commandLine": "echo $A $S >>$AZ_BATCHAI_MOUNT_ROOT/shared/nodes",
        "environmentVariables": [{"name": "A", "value": "1"}],
        "secrets": [{"name": "S", "value": "hidden"}],
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/shared",
    }
    share = {**SHARE, "relativeMountPath": "shared"}
    setup = {"setupTask": task, "mountVolumes": {"azureFileShares": [share]}}
    hand = make().ready(2, nodeSetup=setup)

    until(lambda: hand.count("cluster", "idle") == 2)

    found = cluster(hand).node_setup.setup_task
    logs = hand.folder / "storage/account/logs"
    assert (logs / "nodes").read_text() == "1 hidden\n" * 2
    assert len(list((logs / found.std_out_err_path_suffix).glob("stdout-*.txt"))) == 2
    assert (found.secrets[0].name, found.secrets[0].value) == ("S", None)


def test_a_node_whose_setup_fails_is_unusable_and_the_cluster_says_why(
    make: Callable[..., Hand],
) -> None:
    task = {"commandLine": "exit 9", "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT"}
    hand = make().ready(1, nodeSetup={"setupTask": task})

    until(lambda: hand.count("cluster", "unusable") == 1)

    (error,) = cluster(hand).errors
    assert (error.code, "exit code 9" in error.message) == ("SetupTaskFailed", True)
    hand.submit()
    assert hand.job().execution_state == "queued"


def test_a_setup_task_ends_with_its_node(make: Callable[..., Hand]) -> None:
    share = {**SHARE, "relativeMountPath": "shared"}
    task = {
        "commandLine": "echo $$ >$AZ_BATCHAI_MOUNT_ROOT/shared/pid; sleep 300",
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/shared",
    }
    setup = {"setupTask": task, "mountVolumes": {"azureFileShares": [share]}}
    hand = make().ready(1, nodeSetup=setup)
    file = hand.folder / "storage/account/logs/pid"
    pid = int(until(lambda: file.exists() and file.read_text()))

    hand.stand.close()

    assert until(lambda: not alive(pid))


def test_a_share_of_the_cluster_takes_logs_as_one_of_the_job_does(
    make: Callable[..., Hand],
) -> None:
    setup = {"mountVolumes": {"azureFileShares": [SHARE]}}
    hand = make().ready(1, nodeSetup=setup)

    hand.run("echo 1", mountVolumes=None, stdOutErrPathPrefix="$AZ_BATCHAI_MOUNT_ROOT/logs")

    assert hand.text() == "1\n"


# Quotas


def test_usages_tell_what_clusters_take_of_the_quotas(make: Callable[..., Hand]) -> None:
    quotas = {"Clusters": 2, "Total Cluster Dedicated Regional vCPUs": 12}
    hand = make(quotas=quotas).ready(2, vmSize="STANDARD_NC6")

    found = {u.name.value: (u.current_value, u.limit) for u in hand.client.usages.list("eastus")}

    assert found == {
        "Clusters": (1, 2),
        "Total Cluster Dedicated Regional vCPUs": (12, 12),
        "Standard NC Family Cluster Dedicated vCPUs": (12, 12),
    }


def test_a_cluster_above_a_quota_is_refused(make: Callable[..., Hand]) -> None:
    hand = make(quotas={"Total Cluster Dedicated Regional vCPUs": 12}).ready(
        2, vmSize="STANDARD_NC6"
    )

    with pytest.raises(HttpResponseError, match="Maximum allowed: 12") as made:
        hand.cluster("other", 1, vmSize="STANDARD_NC6")
    with pytest.raises(HttpResponseError) as grown:
        scale(hand, targetNodeCount=3)

    assert [code(caught.value) for caught in (made, grown)] == ["OperationNotAllowed"] * 2
    assert [c.name for c in hand.client.clusters.list_by_workspace(*PLACE)] == ["cluster"]


def test_autoscale_takes_what_the_quota_allows(make: Callable[..., Hand]) -> None:
    auto = {"autoScale": {"minimumNodeCount": 3, "maximumNodeCount": 3}}
    quotas = {"Total Cluster Dedicated Regional vCPUs": 12}
    hand = make(quotas=quotas).ready(0, vmSize="STANDARD_NC6", scaleSettings=auto)

    assert steady(hand, 2)


def test_there_are_no_more_clusters_than_the_quota_has(make: Callable[..., Hand]) -> None:
    hand = make(quotas={"Clusters": 1}).ready(0)

    with pytest.raises(HttpResponseError, match="may have no more"):
        hand.cluster("other", 0)


# Ends


def test_deleting_a_cluster_ends_its_jobs(hand: Hand) -> None:
    hand.submit("sleep 300")
    until(lambda: hand.job().execution_state == "running")
    (node,) = hand.stand.control("GET", "nodes")

    hand.client.clusters.begin_delete(*PLACE, "cluster").result()

    assert hand.job().execution_state == "failed"
    assert hand.job().execution_info.errors[0].code == "ClusterDeleted"
    assert list(hand.client.clusters.list_by_workspace(*PLACE)) == []
    assert not Path(node["folder"]).exists()


def test_deleting_the_group_deletes_all_that_is_in_it(make: Callable[..., Hand]) -> None:
    hand = make(terminate_grace_s=0.3).ready()
    hand.submit('trap "" TERM; echo $$; while :; do sleep 0.1; done')
    until(lambda: "stdout.txt" in hand.files() and hand.text())
    pid = int(hand.text())

    hand.resources.resource_groups.begin_delete("group").result()

    assert not alive(pid)
    assert not hand.resources.resource_groups.check_existence("group")
    assert list(hand.client.workspaces.list()) == []
    with pytest.raises(ResourceNotFoundError, match="Resource group 'group' could not be found"):
        hand.client.workspaces.get(*PLACE)


def test_deleting_what_is_not_there_is_done_already(hand: Hand) -> None:
    none = "none"

    hand.client.jobs.begin_delete(*PLACE, "experiment", none).result()
    hand.client.experiments.begin_delete(*PLACE, none).result()
    hand.client.clusters.begin_delete(*PLACE, none).result()
    hand.client.workspaces.begin_delete("group", none).result()

    assert [w.name for w in hand.client.workspaces.list_by_resource_group("group")] == ["space"]


def test_long_operations_are_creating_until_they_are_done(make: Callable[..., Hand]) -> None:
    hand = make(operation_s=0.3)
    hand.resources.resource_groups.create_or_update("group", {"location": "eastus"})

    poller = hand.client.workspaces.begin_create(*PLACE, {"location": "eastus"})
    state = hand.client.workspaces.get(*PLACE).provisioning_state
    done = poller.result()

    assert (state, done.provisioning_state, done.location) == ("creating", "succeeded", "eastus")
    assert "OperationResult" in hand.operations()


def test_a_workspace_has_its_tags_changed(hand: Hand) -> None:
    hand.client.workspaces.update(*PLACE, {"tags": {"a": "1"}})

    assert hand.client.workspaces.get(*PLACE).tags == {"a": "1"}


def test_creating_an_equal_cluster_returns_the_existing_one(hand: Hand) -> None:
    scale = {"manual": {"targetNodeCount": 1}}
    asked = {"vmSize": "STANDARD_D2", "userAccountSettings": USER, "scaleSettings": scale}
    before = cluster(hand)

    again = hand.client.clusters.begin_create(*PLACE, "cluster", {"properties": asked}).result()

    assert again.creation_time == before.creation_time


def test_quotas_change_while_it_runs_and_are_whole_numbers(hand: Hand) -> None:
    hand.stand.control("PUT", "settings", {"quotas": {"Clusters": 7}})

    found = {u.name.value: u.limit for u in hand.client.usages.list("eastus")}
    assert found["Clusters"] == 7
    for wrong in ({"Clusters": "7"}, {"Clusters": True}, 7):
        with pytest.raises(Exception, match="no mapping to whole numbers"):
            hand.stand.control("PUT", "settings", {"quotas": wrong})
