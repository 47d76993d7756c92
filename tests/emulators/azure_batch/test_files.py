"""Files of tasks and nodes, as a follower of logs needs them."""

from __future__ import annotations

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

from tests.emulators.azure_batch.stand import Stand, until


def raw(stand: Stand, name: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    status, found = stand.raw(method, f"/jobs/job/tasks/task/files/{name}", headers=headers)
    return status, found["code"] if found else ""


def test_a_file_grows_while_its_task_runs(stand: Stand) -> None:
    stand.sh("echo one; until test -e go; do sleep 0.01; done; echo two")
    stand.wrote("one")
    assert stand.client.get_task_file_properties("job", "task", "stdout.txt").content_length == 4
    stand.sh("touch ../../task/wd/go", "helper")

    stand.client.terminate_task("job", "helper")
    folder = stand.truth()["attempts"][0]["folders"][0]
    with open(f"{folder}/wd/go", "w"):
        pass

    stand.end()
    assert stand.text() == "one\ntwo\n"


def test_a_range_is_answered_with_200_and_nothing_but_the_range(stand: Stand) -> None:
    stand.sh("printf 0123456789")
    stand.end()

    def part(text: str) -> bytes:
        return b"".join(
            stand.client.download_task_file("job", "task", "stdout.txt", ocp_range=f"bytes={text}")
        )

    assert part("2-4") == b"234"
    assert part("8-99") == b"89"
    assert part("7-") == b"789"


@pytest.mark.parametrize(
    "asked,status,code",
    [
        ("bytes=10-", 416, "InvalidRange"),
        ("bytes=10-20", 416, "InvalidRange"),
        ("bytes=5-4", 416, "InvalidRange"),
        ("lines=1-2", 400, "InvalidHeaderValue"),
    ],
)
def test_a_range_that_is_not_there_is_refused(
    stand: Stand, asked: str, status: int, code: str
) -> None:
    stand.sh("printf 0123456789")
    stand.end()

    _status, found = stand.raw(
        "GET", "/jobs/job/tasks/task/files/stdout.txt", headers={"ocp-range": asked}
    )

    assert (_status, found["code"]) == (status, code)


def test_a_task_that_has_not_begun_has_no_files_yet(stand: Stand) -> None:
    stand.sh("sleep 69", "first")
    stand.reach("first", "running")
    stand.sh("true")

    assert raw(stand, "stdout.txt") == (409, "OperationInvalidForCurrentState")


def test_a_file_that_is_not_there_is_not_found(stand: Stand) -> None:
    stand.sh("true")
    stand.end()

    assert raw(stand, "wd%2Fnone") == (404, "FileNotFound")
    assert raw(stand, "..%2F..%2Fx") == (404, "FileNotFound")
    assert raw(stand, "none", "HEAD")[0] == 404


def test_files_go_with_their_node(stand: Stand) -> None:
    stand.sh("true")
    stand.end()

    stand.raw("POST", "/pools/pool/resize", {"targetDedicatedNodes": 0})

    until(lambda: not stand.nodes())
    assert raw(stand, "stdout.txt") == (404, "NodeNotFound")


def test_files_are_listed_with_their_properties(stand: Stand) -> None:
    stand.sh("mkdir d; printf 12345 > d/x")
    stand.end()

    top = {f.name: f for f in stand.client.list_task_files("job", "task")}
    deep = {f.name: f for f in stand.client.list_task_files("job", "task", recursive=True)}
    only = stand.client.list_task_files(
        "job", "task", recursive=True, filter="startswith(name, 'wd/')"
    )

    assert set(top) == {"stdout.txt", "stderr.txt", "wd"}
    assert set(deep) == {*top, "wd/d", "wd/d/x"}
    assert deep["wd/d/x"].properties.content_length == 5
    assert {f.name for f in only} == {"wd/d", "wd/d/x"}
    assert deep["wd"].is_directory


def test_files_of_a_node_are_found_below_its_root(stand: Stand) -> None:
    stand.sh("echo x")
    info = stand.end()["nodeInfo"]

    path = f"{info['taskRootDirectory']}/stdout.txt"
    found = stand.client.download_node_file("pool", info["nodeId"], path)

    assert b"".join(found) == b"x\n"
    with pytest.raises(ResourceNotFoundError):
        stand.client.get_node_file_properties("pool", "tvm-none", path)


def test_a_file_can_be_deleted(stand: Stand) -> None:
    stand.sh("mkdir d; touch d/x")
    stand.end()
    with pytest.raises(HttpResponseError, match="not empty"):
        stand.client.delete_task_file("job", "task", "wd/d")

    stand.client.delete_task_file("job", "task", "wd/d", recursive=True)

    assert raw(stand, "wd%2Fd") == (404, "FileNotFound")
