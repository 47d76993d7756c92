"""Pools grow and shrink, nodes start, fail and are taken away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError

from tests.emulators.azure_batch.stand import Stand, until


def test_nodes_come_after_a_while_each_with_its_address_and_its_disk(
    make: Callable[..., Stand],
) -> None:
    stand = make(node_s=1.0)
    stand.pool(targetDedicatedNodes=2)
    assert stand.client.get_pool("pool").allocation_state == "resizing"
    assert stand.nodes() == []

    nodes = stand.idle(2)

    pool = stand.client.get_pool("pool")
    assert (pool.allocation_state, pool.current_dedicated_nodes) == ("steady", 2)
    assert len({n["ipAddress"] for n in nodes}) == 2
    assert all(n["ipAddress"].startswith("127.0.") for n in nodes)


def test_a_pool_exists_once_whatever_its_case(stand: Stand) -> None:
    with pytest.raises(ResourceExistsError, match="PoolExists"):
        stand.pool("POOL")


def test_a_deleted_pool_is_deleting_and_then_gone(make: Callable[..., Stand]) -> None:
    stand = make(delete_s=2.0).ready()
    stand.sh("echo begun; sleep 64")
    stand.wrote("begun")

    poller = stand.client.begin_delete_pool("pool", polling_interval=0.01)

    assert stand.client.get_pool("pool").state == "deleting"
    with pytest.raises(ResourceExistsError, match="PoolBeingDeleted"):
        stand.pool()
    poller.result()
    with pytest.raises(ResourceNotFoundError, match="PoolNotFound"):
        stand.client.get_pool("pool")
    assert (stand.task()["state"], stand.task()["executionInfo"]["requeueCount"]) == ("active", 1)


def test_a_pool_that_is_being_resized_cannot_be_resized(make: Callable[..., Stand]) -> None:
    stand = make(node_s=60.0)
    stand.pool()

    status, found = stand.raw("POST", "/pools/pool/resize", {"targetDedicatedNodes": 2})

    assert (status, found["code"]) == (409, "PoolBeingResized")


def test_a_stopped_resize_leaves_what_there_is(make: Callable[..., Stand]) -> None:
    stand = make(node_s=60.0)
    stand.pool(targetDedicatedNodes=5)

    stand.raw("POST", "/pools/pool/stopresize")

    until(lambda: stand.client.get_pool("pool").allocation_state == "steady")
    pool = stand.client.get_pool("pool")
    assert (pool.target_dedicated_nodes, pool.resize_errors[0].code) == (0, "ResizeStopped")


@pytest.mark.parametrize(
    "settings,code",
    [
        ({"dedicated_quota": 1}, "AccountCoreQuotaReached"),
        ({"resize_errors": {"pool": "AllocationFailed"}}, "AllocationFailed"),
    ],
)
def test_a_pool_says_why_it_does_not_grow(
    make: Callable[..., Stand], settings: dict[str, object], code: str
) -> None:
    stand = make(**settings)

    stand.pool(targetDedicatedNodes=3)

    until(lambda: stand.client.get_pool("pool").allocation_state == "steady")
    assert [e.code for e in stand.client.get_pool("pool").resize_errors] == [code]


@pytest.mark.parametrize(
    "option,state,requeued",
    [("requeue", "active", 1), ("terminate", "completed", 0), ("taskcompletion", "completed", 0)],
)
def test_nodes_that_leave_do_with_their_tasks_what_the_option_says(
    stand: Stand, option: str, state: str, requeued: int
) -> None:
    stand.sh("echo begun; until test -e go; do sleep 0.01; done")
    stand.wrote("begun")
    folder = Path(stand.truth()["attempts"][0]["folders"][0])

    body = {"targetDedicatedNodes": 0, "nodeDeallocationOption": option}
    stand.raw("POST", "/pools/pool/resize", body)
    if option == "taskcompletion":
        assert (len(stand.nodes()), stand.task()["state"]) == (1, "running")
        (folder / "wd" / "go").touch()

    until(lambda: not stand.nodes())
    info = stand.reach("task", state)["executionInfo"]
    assert info["requeueCount"] == requeued
    assert info.get("failureInfo", {}).get("code") == (
        "TaskEnded" if option == "terminate" else None
    )
    until(lambda: not folder.exists())


def test_nodes_that_run_nothing_leave_first(make: Callable[..., Stand]) -> None:
    stand = make().ready(targetDedicatedNodes=2)
    stand.idle(2)
    stand.sh("echo begun; sleep 74")
    stand.wrote("begun")

    stand.raw("POST", "/pools/pool/resize", {"targetDedicatedNodes": 1})

    until(lambda: len(stand.nodes()) == 1)
    assert (stand.task()["state"], stand.truth()["starts"]) == ("running", 1)


def test_a_start_task_runs_before_any_other(make: Callable[..., Stand]) -> None:
    stand = make().ready(
        startTask={"commandLine": "/bin/sh -c 'echo hi > $AZ_BATCH_NODE_SHARED_DIR/x'"}
    )

    stand.sh("cat $AZ_BATCH_NODE_SHARED_DIR/x; cat $AZ_BATCH_NODE_STARTUP_DIR/stdout.txt")

    stand.end()
    assert stand.text() == "hi\n"
    assert stand.nodes()[0]["startTaskInfo"]["exitCode"] == 0


def test_a_node_whose_start_task_fails_runs_nothing(make: Callable[..., Stand]) -> None:
    task = {"commandLine": "/bin/sh -c 'echo no; exit 4'", "maxTaskRetryCount": 2}
    stand = make().ready(startTask=task)

    until(lambda: [n["state"] for n in stand.nodes()] == ["starttaskfailed"])

    (node,) = stand.nodes()
    info = node["startTaskInfo"]
    assert (info["exitCode"], info["retryCount"], info["result"]) == (4, 2, "failure")
    out = b"".join(stand.client.download_node_file("pool", node["id"], "startup/stdout.txt"))
    assert out == b"no\n"


def test_a_start_task_that_need_not_succeed_stops_nothing(make: Callable[..., Stand]) -> None:
    stand = make().ready(startTask={"commandLine": "/bin/false", "waitForSuccess": False})

    stand.sh("true")

    assert stand.end()["executionInfo"]["exitCode"] == 0


def test_an_unusable_node_says_so(make: Callable[..., Stand]) -> None:
    stand = make(unusable=(1,)).ready(targetDedicatedNodes=2)

    until(lambda: sorted(n["state"] for n in stand.nodes()) == ["idle", "unusable"])

    (counts,) = list(stand.client.list_pool_node_counts())
    assert (counts.dedicated.idle, counts.dedicated.unusable) == (1, 1)


def test_mounts_are_folders_of_this_machine(make: Callable[..., Stand], tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "x").write_text("shared")
    nfs = {"source": "10.0.0.4:/x", "relativeMountPath": "data"}
    stand = make(mounts={"data": str(tmp_path / "share")})
    stand.ready(mountConfiguration=[{"nfsMountConfiguration": nfs}])

    stand.sh("cat $AZ_BATCH_NODE_MOUNTS_DIR/data/x")

    stand.end()
    assert stand.text() == "shared"
    stand.client.begin_delete_pool("pool", polling_interval=0.01).result()
    assert (tmp_path / "share" / "x").exists()


def test_a_preempted_node_is_killed_and_its_task_queued_again(make: Callable[..., Stand]) -> None:
    stand = make(comes_back=False)
    stand.ready(targetDedicatedNodes=0, targetLowPriorityNodes=1)
    trap = 'trap "echo told" TERM; echo begun; test -e $AZ_BATCH_NODE_SHARED_DIR/x || sleep 65'
    stand.sh(trap, constraints={"maxTaskRetryCount": 0})
    stand.wrote("begun")

    stand.server.control("POST", "preempt", {"jobId": "job", "taskId": "task"})

    info = stand.reach("task", "active")["executionInfo"]
    assert (info["requeueCount"], info["retryCount"]) == (1, 0)
    assert stand.nodes()[0]["state"] == "preempted"
    status, found = stand.raw("GET", "/jobs/job/tasks/task/files/stdout.txt")
    assert (status, found["code"]) == (409, "OperationInvalidForCurrentState")


def test_a_preempted_node_comes_back_with_an_empty_disk(make: Callable[..., Stand]) -> None:
    stand = make().ready(targetDedicatedNodes=0, targetLowPriorityNodes=1)
    stand.sh("touch $AZ_BATCH_NODE_SHARED_DIR/x; test $AZ_BATCH_NODE_IS_DEDICATED = false", "one")
    assert stand.end("one")["executionInfo"]["exitCode"] == 0
    (node,) = stand.nodes()

    stand.server.control("POST", "preempt", {"nodeId": node["id"]})

    stand.sh("ls $AZ_BATCH_NODE_SHARED_DIR; echo ls", "two")
    stand.end("two")
    assert stand.text("two") == "ls\n"


def test_a_dedicated_node_is_not_preempted(stand: Stand) -> None:
    (node,) = stand.idle(1)

    with pytest.raises(AssertionError, match="no low-priority node"):
        stand.server.control("POST", "preempt", {"nodeId": node["id"]})


def test_a_pool_runs_as_many_tasks_as_it_has_slots(make: Callable[..., Stand]) -> None:
    stand = make().ready(taskSlotsPerNode=2)
    wait = "echo begun; until test -e $AZ_BATCH_NODE_SHARED_DIR/go; do sleep 0.01; done"
    for name in ("a", "b", "c"):
        stand.sh(wait, name)
    stand.wrote("begun", "a")
    stand.wrote("begun", "b")

    assert stand.task("c")["state"] == "active"
    (node,) = stand.server.world.pools["pool"].nodes.values()
    (node.folder("shared") / "go").touch()
    stand.end("c")


def test_containers_are_for_pools_that_have_them(stand: Stand) -> None:
    settings = {"imageName": "python"}
    with pytest.raises(HttpResponseError, match="containerConfiguration"):
        stand.sh("true", containerSettings=settings)
    machine = dict(stand.client.get_pool("pool").as_dict()["virtualMachineConfiguration"])
    machine["containerConfiguration"] = {"type": "dockerCompatible"}
    stand.pool("contained", virtualMachineConfiguration=machine)
    stand.job("other", "contained")

    with pytest.raises(HttpResponseError, match="containerConfiguration"):
        stand.client.create_task("other", {"id": "t", "commandLine": "/bin/true"})
    stand.client.create_task(
        "other", {"id": "t", "commandLine": "/bin/true", "containerSettings": settings}
    )


def test_a_managed_image_is_refused(make: Callable[..., Stand]) -> None:
    stand = make(tokens=("fixed",))
    stand.client = stand.with_token("fixed")  # a key is refused for any image of one's own
    image = {"virtualMachineImageId": "/subscriptions/s/providers/Microsoft.Compute/images/mine"}

    with pytest.raises(HttpResponseError, match="InvalidPropertyValue"):
        stand.client.create_pool(
            {
                "id": "other",
                "vmSize": "STANDARD_D2S_V3",
                "virtualMachineConfiguration": {
                    "imageReference": image,
                    "nodeAgentSKUId": "batch.node.ubuntu 24.04",
                },
            }
        )


def test_a_pool_without_public_addresses_is_in_a_subnet(make: Callable[..., Stand]) -> None:
    stand = make(tokens=("fixed",))
    stand.client = stand.with_token("fixed")
    public = {"publicIPAddressConfiguration": {"provision": "nopublicipaddresses"}}

    with pytest.raises(HttpResponseError, match="InvalidPropertyValue"):
        stand.pool(networkConfiguration=public)

    stand.pool(networkConfiguration={**public, "subnetId": "/subscriptions/s/subnets/a"})
