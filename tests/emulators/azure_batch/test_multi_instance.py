"""Multi-instance tasks: nodes that begin together, and end with the primary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.emulators.azure_batch.stand import Stand, Store, until
from tests.support.process_table import marked

GANG = {"targetDedicatedNodes": 3, "enableInterNodeCommunication": True}


def gang(coordination: str, **more: Any) -> dict[str, Any]:
    settings = {"numberOfInstances": 3, "coordinationCommandLine": coordination}
    return {"multiInstanceSettings": {**settings, **more}}


@pytest.fixture
def stand(make: Callable[..., Stand]) -> Stand:
    return make().ready(**GANG)


def everywhere(stand: Stand, file: str = "stdout.txt") -> list[str]:
    """Return what a file of the task holds on each of its nodes, the primary's first."""
    (attempt,) = stand.truth()["attempts"]
    path = f"workitems/job/job-1/task/{file}"
    return [
        b"".join(stand.client.download_node_file("pool", node, path)).decode()
        for node in attempt["nodes"]
    ]


def test_all_nodes_coordinate_and_then_the_primary_runs_the_command(stand: Stand) -> None:
    stand.sh("echo application", **gang("/bin/echo coordination"))

    assert stand.end()["executionInfo"]["exitCode"] == 0

    assert everywhere(stand) == ["coordination\napplication\n", "coordination\n", "coordination\n"]


def test_the_command_waits_until_all_have_coordinated(stand: Stand) -> None:
    slow = "/bin/sh -c 'until test -e $AZ_BATCH_NODE_SHARED_DIR/go; do sleep 0.01; done'"
    stand.sh("echo application", **gang(slow))
    until(lambda: stand.truth()["attempts"])
    *others, last = stand.server.world.pools["pool"].nodes.values()
    for node in others:
        (node.folder("shared") / "go").touch()
    stand.wrote("")
    assert stand.text() == ""

    (last.folder("shared") / "go").touch()

    stand.end()
    assert stand.text() == "application\n"


def test_each_node_knows_all_and_which_it_is(stand: Stand) -> None:
    names = "$AZ_BATCH_IS_CURRENT_NODE_MASTER $AZ_BATCH_HOST_LIST $AZ_BATCH_NODE_LIST"
    stand.sh("true", **gang(f"/bin/sh -c 'echo {names} $AZ_BATCH_MASTER_NODE $CCP_NODES'"))
    stand.end()

    hosts = stand.truth()["attempts"][0]["addresses"]

    assert len(set(hosts)) == 3
    a, b, c = hosts
    rest = f"{a},{b},{c} {a};{b};{c} {a}:6000 3 {a} 2 {b} 2 {c} 2\n"
    assert everywhere(stand) == [f"true {rest}", f"false {rest}", f"false {rest}"]


def test_common_files_come_to_all_and_resource_files_to_the_primary(
    stand: Stand, store: Store
) -> None:
    store.blobs |= {"container/common": b"c", "container/own": b"o"}
    common = [{"httpUrl": store.blob("common"), "filePath": "common"}]
    own = [{"httpUrl": store.blob("own"), "filePath": "own"}]
    line = "/bin/sh -c 'cat $AZ_BATCH_TASK_SHARED_DIR/common; ls'"
    stand.sh("ls", resourceFiles=own, **gang(line, commonResourceFiles=common))

    stand.end()

    assert everywhere(stand) == ["cown\n", "c", "c"]


def test_background_processes_of_coordination_end_with_the_primary(stand: Stand) -> None:
    background = "/bin/sh -c 'setsid sh -c \"echo up; trap : TERM; sleep 62\" & '"
    stand.sh("sleep 0.2", **gang(background))
    stand.end()

    nodes = stand.server.world.pools["pool"].nodes.values()

    assert everywhere(stand) == ["up\n"] * 3
    marks = [f"AZ_BATCH_NODE_ROOT_DIR={n.root}\0" for n in nodes]
    assert not [m for m in marks if marked(m)]


def test_background_processes_of_coordination_write_to_the_same_log(stand: Stand) -> None:
    wait = "until test -e $AZ_BATCH_TASK_WORKING_DIR/up; do sleep 0.01; done"
    background = f"/bin/sh -c '({wait}; echo late; touch $AZ_BATCH_TASK_WORKING_DIR/done) &'"
    stand.sh("echo first; touch up; until test -e done; do sleep 0.01; done", **gang(background))

    stand.end()

    assert stand.text() == "first\nlate\n"


def test_a_subtask_that_fails_fails_the_task_which_is_tried_again(stand: Stand) -> None:
    line = "/bin/sh -c 'test $AZ_BATCH_IS_CURRENT_NODE_MASTER = true || exit 9'"
    stand.sh("echo never", **gang(line), constraints={"maxTaskRetryCount": 1})

    info = stand.end()["executionInfo"]

    assert (info["exitCode"], info["retryCount"]) == (9, 1)
    assert stand.text() == ""


def test_subtasks_are_told_apart_from_the_primary(stand: Stand) -> None:
    """And not in the order of AZ_BATCH_HOST_LIST, which nobody promises."""
    stand.sh("true", **gang("/bin/true"))
    stand.end()

    found = [s.as_dict() for s in stand.client.list_subtasks("job", "task")]

    assert [(s["id"], s["state"], s["exitCode"]) for s in found] == [
        (1, "completed", 0),
        (2, "completed", 0),
    ]
    nodes = stand.truth()["attempts"][0]["nodes"]
    assert [s["nodeInfo"]["nodeId"] for s in found] == nodes[:0:-1]


@pytest.mark.parametrize(
    "pool", [{"enableInterNodeCommunication": False}, {"taskSlotsPerNode": 2}], ids=str
)
def test_a_gang_in_a_pool_that_is_not_for_gangs_stays_active(
    make: Callable[..., Stand], pool: dict[str, object]
) -> None:
    stand = make().ready(**{**GANG, **pool})
    stand.idle(3)

    stand.sh("true", **gang("/bin/true"))
    stand.sh("true", "alone")

    stand.end("alone")
    assert stand.task()["state"] == "active"


def test_a_gang_waits_until_there_are_nodes_for_all(make: Callable[..., Stand]) -> None:
    stand = make().ready(**{**GANG, "targetDedicatedNodes": 2})
    stand.idle(2)
    stand.sh("true", **gang("/bin/true"))
    assert stand.task()["state"] == "active"

    stand.client.begin_resize_pool("pool", {"targetDedicatedNodes": 3}, polling_interval=0.01)

    stand.end()


def test_a_gang_that_loses_a_node_is_queued_again(make: Callable[..., Stand]) -> None:
    low = {"targetDedicatedNodes": 0, "targetLowPriorityNodes": 3}
    stand = make().ready(**{**GANG, **low})
    stand.sh("echo begun; test -e $AZ_BATCH_NODE_SHARED_DIR/go || sleep 63", **gang("/bin/true"))
    stand.wrote("begun")
    for node in stand.server.world.pools["pool"].nodes.values():
        (node.folder("shared") / "go").touch()

    stand.server.control("POST", "preempt", {"jobId": "job", "taskId": "task", "index": 2})

    until(lambda: stand.truth()["starts"] == 2)
    assert stand.truth()["executionInfo"]["requeueCount"] == 1
