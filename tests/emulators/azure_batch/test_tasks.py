"""Tasks run for real, with the variables, files and ends that the service's documentation says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError

from tests.emulators.azure_batch.stand import MACHINE, Stand, Store, until


def test_a_task_succeeds_with_exit_code_0_and_leaves_its_output_in_stdout_txt(stand: Stand) -> None:
    stand.sh("echo out; echo err >&2")

    task = stand.end()

    assert task["executionInfo"]["exitCode"] == 0
    assert task["executionInfo"]["result"] == "success"
    assert (stand.text(), stand.text(file="stderr.txt")) == ("out\n", "err\n")


def test_a_task_fails_with_another_exit_code(stand: Stand) -> None:
    stand.sh("exit 7")

    info = stand.end()["executionInfo"]

    assert (info["exitCode"], info["result"]) == (7, "failure")
    assert info["failureInfo"]["code"] == "FailureExitCode"
    assert info["failureInfo"]["category"] == "usererror"


def test_no_shell_reads_a_command_line(stand: Stand) -> None:
    stand.run("/bin/echo $HOME '*' \"a  b\"")

    stand.end()

    assert stand.text() == "$HOME * a  b\n"


def test_a_program_that_is_not_there_leaves_no_exit_code(stand: Stand) -> None:
    stand.run("no-such-program")

    info = stand.end()["executionInfo"]

    assert info["failureInfo"]["code"] == "CommandProgramNotFound"
    assert "exitCode" not in info


def test_a_task_knows_where_it_is(stand: Stand) -> None:
    stand.sh("env")

    info = stand.end()["nodeInfo"]

    env = dict(line.partition("=")[::2] for line in stand.text().splitlines())
    root = env["AZ_BATCH_NODE_ROOT_DIR"]
    assert env["AZ_BATCH_JOB_ID"] == "job"
    assert env["AZ_BATCH_TASK_ID"] == "task"
    assert env["AZ_BATCH_POOL_ID"] == info["poolId"] == "pool"
    assert env["AZ_BATCH_NODE_ID"] == info["nodeId"]
    assert env["AZ_BATCH_NODE_IS_DEDICATED"] == "true"
    assert env["AZ_BATCH_TASK_DIR"] == f"{root}/workitems/job/job-1/task"
    assert env["AZ_BATCH_TASK_WORKING_DIR"] == env["PWD"] == f"{root}/workitems/job/job-1/task/wd"
    assert env["AZ_BATCH_NODE_MOUNTS_DIR"] == f"{root}/fsmounts"
    assert env["AZ_BATCH_ACCOUNT_URL"] == stand.server.url
    assert "AZ_BATCH_HOST_LIST" not in env


def test_a_tasks_own_environment_wins_over_the_jobs(stand: Stand) -> None:
    common = [{"name": "A", "value": "job"}, {"name": "B", "value": "job"}]
    stand.job("other", commonEnvironmentSettings=common)
    own = [{"name": "B", "value": "task"}, {"name": "AZ_BATCH_JOB_ID", "value": "mine"}]
    line = "/bin/sh -c 'echo $A $B $AZ_BATCH_JOB_ID'"

    stand.client.create_task("other", {"id": "t", "commandLine": line, "environmentSettings": own})

    until(lambda: stand.client.get_task("other", "t").state == "completed")
    out = b"".join(stand.client.download_task_file("other", "t", "stdout.txt"))
    assert out == b"job task other\n"


def test_a_task_that_is_tried_again_finds_none_of_its_files(stand: Stand, tmp_path: Path) -> None:
    """Neither in its folders nor in that which the tasks of a node share: it may be on another node."""
    seen = tmp_path / "seen"
    here = "ls -A . $AZ_BATCH_NODE_SHARED_DIR | grep left"
    first = f"touch {seen} left $AZ_BATCH_NODE_SHARED_DIR/left; exit 1"
    stand.sh(f"[ -e {seen} ] || {{ {first}; }}; {here}; :", constraints={"maxTaskRetryCount": 1})

    info = stand.end()["executionInfo"]

    assert (info["retryCount"], info["exitCode"], stand.text()) == (1, 0, "")


def test_a_failed_task_is_tried_again_as_often_as_it_may_be(stand: Stand, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    stand.sh(f"echo x >> {tries}; exit 1", constraints={"maxTaskRetryCount": 2})

    info = stand.end()["executionInfo"]

    assert (info["retryCount"], info["requeueCount"], info["exitCode"]) == (2, 0, 1)
    assert tries.read_text() == "x\n" * 3


def test_a_task_that_takes_too_long_is_ended(stand: Stand) -> None:
    limits = {"maxWallClockTime": "PT0.3S", "maxTaskRetryCount": 3}
    stand.sh("sleep 60", constraints=limits)

    info = stand.end()["executionInfo"]

    assert info["failureInfo"]["code"] == "TaskEnded"
    assert info["retryCount"] == 0


def test_a_task_that_is_terminated_is_complete_and_nothing_of_it_runs(stand: Stand) -> None:
    stand.sh("(trap : TERM; setsid sleep 61) & echo begun; wait")
    stand.wrote("begun")

    stand.client.terminate_task("job", "task")

    assert stand.end()["executionInfo"]["failureInfo"]["code"] == "TaskEnded"
    until(lambda: not stand.truth()["running"])
    with pytest.raises(HttpResponseError, match="TaskCompleted"):
        stand.client.terminate_task("job", "task")


def test_resource_files_come_before_the_command(stand: Stand, store: Store) -> None:
    store.blobs |= {"container/one": b"1", "container/data/a": b"a", "container/data/b": b"b"}
    files = [
        {"httpUrl": store.blob("one"), "filePath": "in/one", "fileMode": "0755"},
        {"storageContainerUrl": store.container(), "blobPrefix": "data/", "filePath": "more"},
    ]
    stand.sh("cat in/one more/data/a more/data/b; test -x in/one", resourceFiles=files)

    assert stand.end()["executionInfo"]["exitCode"] == 0
    assert stand.text() == "1ab"


@pytest.mark.parametrize(
    "name,sig,code", [("none", "good", "BlobNotFound"), ("one", "bad", "BlobAccessDenied")]
)
def test_a_task_whose_files_do_not_come_fails_before_it_begins(
    stand: Stand, store: Store, name: str, sig: str, code: str
) -> None:
    store.blobs["container/one"] = b"1"
    files = [{"httpUrl": store.blob(name, sig), "filePath": "x"}]
    stand.sh("echo", resourceFiles=files, constraints={"maxTaskRetryCount": 2})

    info = stand.end()["executionInfo"]

    assert info["failureInfo"]["code"] == code
    assert "sig=" not in str(info["failureInfo"])
    assert ("exitCode" in info, info["retryCount"]) == (False, 0)


def outputs(
    store: Store, pattern: str, condition: str, path: str = "", **more: str
) -> list[object]:
    container = {"containerUrl": store.container(**more), **({"path": path} if path else {})}
    return [
        {
            "filePattern": pattern,
            "destination": {"container": container},
            "uploadOptions": {"uploadCondition": condition},
        }
    ]


def test_output_files_are_taken_as_their_condition_says(stand: Stand, store: Store) -> None:
    given = [
        *outputs(store, "../std*.txt", "taskcompletion", "logs/x"),
        *outputs(store, "result", "tasksuccess", "good"),
        *outputs(store, "result", "taskfailure", "bad"),
        *outputs(store, "**/*.dat", "taskfailure", "all"),
        *outputs(store, "absent*", "taskcompletion"),
    ]
    stand.sh("echo hello; mkdir -p d/e; echo r | tee result d/e/f.dat; exit 2", outputFiles=given)

    info = stand.end()["executionInfo"]

    assert info["failureInfo"]["code"] == "FailureExitCode"
    assert store.blobs == {
        "container/logs/x/stdout.txt": b"hello\nr\n",
        "container/logs/x/stderr.txt": b"",
        "container/bad": b"r\n",
        "container/all/d/e/f.dat": b"r\n",
    }


def test_output_files_of_a_terminated_task_are_taken(stand: Stand, store: Store) -> None:
    stand.sh("echo x; sleep 72", outputFiles=outputs(store, "../stdout.txt", "taskcompletion", "o"))
    stand.wrote("x")

    stand.client.terminate_task("job", "task")

    info = stand.end()["executionInfo"]
    assert store.blobs == {"container/o": b"x\n"}
    assert (info["exitCode"], info["failureInfo"]["code"]) == (137, "TaskEnded")


def test_output_files_of_a_preempted_task_are_lost(
    make: Callable[..., Stand], store: Store
) -> None:
    stand = make(comes_back=False)
    stand.ready(targetDedicatedNodes=0, targetLowPriorityNodes=1)
    stand.sh("echo x; sleep 73", outputFiles=outputs(store, "../stdout.txt", "taskcompletion", "o"))
    stand.wrote("x")

    stand.server.control("POST", "preempt", {"jobId": "job", "taskId": "task"})

    stand.reach("task", "active")
    assert store.blobs == {}


def test_a_task_fails_if_its_output_cannot_be_taken(stand: Stand, store: Store) -> None:
    given = outputs(store, "result", "taskcompletion", "x", name="elsewhere")
    stand.sh("echo r > result", outputFiles=given)

    info = stand.end()["executionInfo"]

    assert (info["exitCode"], info["result"]) == (0, "failure")
    assert info["failureInfo"]["code"] == "FileUploadContainerNotFound"


def test_a_collection_says_of_each_task_how_it_went(stand: Stand) -> None:
    stand.run("/bin/true", "old")
    value = [
        {"id": "new", "commandLine": "/bin/true"},
        {"id": "OLD", "commandLine": "/bin/true"},
        {"id": "bad id", "commandLine": "/bin/true"},
    ]

    status, found = stand.raw("POST", "/jobs/job/addtaskcollection", {"value": value})

    codes = {r["taskId"]: r.get("error", {}).get("code", r["status"]) for r in found["value"]}
    assert status == 200
    assert codes == {"new": "success", "OLD": "TaskExists", "bad id": "InvalidPropertyValue"}


def test_a_container_that_asks_for_gpus_is_refused(make: Callable[..., Stand]) -> None:
    stand = make()
    machine = {**MACHINE, "containerConfiguration": {"type": "dockerCompatible"}}
    stand.ready(virtualMachineConfiguration=machine)

    for options, status in (("--rm --gpus all", 400), ("--rm", 201)):
        settings = {"imageName": "a:1", "containerRunOptions": options}
        body = {"id": "t", "commandLine": "/bin/true", "containerSettings": settings}
        assert stand.raw("POST", "/jobs/job/tasks", body)[0] == status


def test_a_collection_has_at_most_100_tasks(stand: Stand) -> None:
    value = [{"id": f"t{i}", "commandLine": "/bin/true"} for i in range(101)]

    status, _found = stand.raw("POST", "/jobs/job/addtaskcollection", {"value": value})

    assert (status, list(stand.client.list_tasks("job"))) == (400, [])


@pytest.mark.slow
def test_the_sdk_adds_a_thousand_tasks_in_ten_collections(make: Callable[..., Stand]) -> None:
    stand = make()
    stand.pool(targetDedicatedNodes=0)
    stand.job()

    stand.client.create_tasks("job", [{"id": f"t{i}", "commandLine": "x"} for i in range(1000)])

    calls = [c["operation"] for c in stand.server.control("GET", "calls")]
    assert calls == ["Pool_Add", "Job_Add", *["Task_AddCollection"] * 10]
    assert stand.client.get_job_task_counts("job").task_counts.active == 1000


def test_a_task_stays_active_for_as_long_as_the_setting_says(make: Callable[..., Stand]) -> None:
    stand = make(active_s=60.0).ready()
    stand.idle(1)

    stand.sh("true", "slow")
    stand.set(active_s=0.0)
    stand.sh("true", "quick")

    stand.end("quick")
    assert stand.task("slow")["state"] == "active"


def test_ids_keep_their_case_and_do_not_differ_by_it(stand: Stand) -> None:
    stand.run("/bin/true", "MyTask")

    with pytest.raises(ResourceExistsError, match="TaskExists"):
        stand.run("/bin/true", "mytask")
    assert stand.client.get_task("JOB", "MYTASK").id == "MyTask"


def test_a_task_waits_for_those_that_it_depends_on(stand: Stand) -> None:
    stand.job("other", usesTaskDependencies=True)
    create = stand.client.create_task
    create("other", {"id": "b", "commandLine": "/bin/true", "dependsOn": {"taskIds": ["a"]}})
    create("other", {"id": "c", "commandLine": "/bin/true", "dependsOn": {"taskIds": ["bad"]}})
    create("other", {"id": "bad", "commandLine": "/bin/false"})
    until(lambda: stand.client.get_task("other", "bad").state == "completed")

    create("other", {"id": "a", "commandLine": "/bin/true"})

    until(lambda: stand.client.get_task("other", "b").state == "completed")
    assert stand.client.get_task("other", "c").state == "active"


def test_a_task_that_is_deleted_is_gone_with_its_files(stand: Stand) -> None:
    stand.sh("echo begun; sleep 60")
    stand.wrote("begun")
    folder = stand.truth()["attempts"][0]["folders"][0]

    stand.client.delete_task("job", "task")

    with pytest.raises(HttpResponseError, match="TaskNotFound"):
        stand.task()
    until(lambda: not Path(folder).exists())


def test_a_failed_task_may_be_made_active_again(stand: Stand, tmp_path: Path) -> None:
    stand.sh(f"test -e {tmp_path}/ok")
    stand.end()
    (tmp_path / "ok").touch()

    stand.client.reactivate_task("job", "task")

    until(lambda: stand.task()["executionInfo"].get("exitCode") == 0)
    with pytest.raises(HttpResponseError, match="TaskSucceeded"):
        stand.client.reactivate_task("job", "task")
