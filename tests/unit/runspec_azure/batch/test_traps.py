"""No plan steps into what Azure Batch would take without a word and then let wait or lose.

https://learn.microsoft.com/azure/batch/batch-mpi, .../batch-docker-container-workloads and
.../rest/api/batchservice/jobs/create-job say so of each. What becomes of each trap:

| trap | in plans | in a pool of the profile, or what the user asks for |
| --- | --- | --- |
| many nodes: no talk between nodes, several slots | a_task_of_many_nodes_... here | note of check, doctor |
| many nodes: more than the pool may have | a_task_of_many_nodes_... here | error of check |
| plain resource files reach the first node alone | what_all_nodes_need_... here | - |
| output files are of the first node alone | logs of each node: inside/test_azure_batch.py | - |
| no shell reads a command line | every_command_line_... here | - |
| a pool for containers takes nothing else | containers_... here | note of check, doctor |
| a formula and targets exclude each other | a_pool_has_a_formula_... here | - |
| an evaluation is five minutes away | test_scale.py, test_wake.py | said in the docs |
| $PendingTasks counts a waiting task by its nodes | test_scale.py | - |
| spot that never comes | test_scale.py, e2e/test_azure_scale.py | said by status |
| an empty job ends at once | a_job_ends_by_itself_... here | - |
| ids: 64 letters, case does not count | every_id_... here | error of check |
| a mount has one way to log in, ten at most | a_mount_has_one_way_... here | error of check |
| only pools have mounts | the pool is named by them: test_plan.py | note of check, doctor |
| a file has one source | every_file_... here | - |
| tags of resources are not for every account | no_plan_has_what... here | - |
| identities need another API | no_plan_has_what... here | error of check |
| low priority was retired | - | error of check, doctor |
| files go with their machine | what_a_task_printed_... here | e2e/test_azure.py |
| a task that ends before its machine is a failure | e2e/test_azure_spot.py | - |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from runspec_azure.batch import PROVIDER
from runspec_jobs.provider import Facts, Scope, Source, Spec, Step
from tests.support.azure.specs import SHARED, options, spec

RUN = "a" * 40 + "-7k2m9q"  # of the longest name that a job may have
JOBS: dict[str, Spec] = {
    "one node": spec(),
    "one node with an image": spec(container={"image": "python:3.12"}),
    "an image of one machine": spec(container={"image": "localhost/a", "requirements": ["six"]}),
    "a gang": spec(cluster={"nodes": 3}),
    "a gang with an image": spec(cluster={"nodes": 3}, container={"image": "python:3.12"}),
    "a gang of all machines": spec(cluster={"nodes": 16}, max_parallel=1, sweep={"a": [1, 2]}),
    "a sweep of gangs": spec(cluster={"nodes": 2, "capacity": "spot"}, sweep={"a": "1..101"}),
    "mounts": spec(mounts=[SHARED], cluster={"capacity": "spot-then-on-demand"}),
}
SHARES = {"work": "files:jobs/share"}


def steps(wanted: Spec, **profile: Any) -> list[Step]:
    sources = {m.name: Source("sha256:0", 1, 1) for m in wanted.mounts}
    return list(PROVIDER.plan(wanted, RUN, Facts(options(shared=SHARES, **profile), sources)))


def bodies(found: list[Step], operation: str) -> list[Mapping[str, Any]]:
    return [s.do.params["body"] for s in found if s.do.operation == operation]


def pool(found: list[Step]) -> Mapping[str, Any]:
    (made,) = bodies(found, "Pool_Add")
    return made


def tasks(found: list[Step]) -> list[Mapping[str, Any]]:
    return [task for body in bodies(found, "Task_AddCollection") for task in body["value"]]


@pytest.mark.parametrize("name", JOBS)
def test_a_task_of_many_nodes_is_on_a_pool_that_takes_it(name: str) -> None:
    found = steps(JOBS[name])

    for task in tasks(found):
        if "multiInstanceSettings" in task:
            assert pool(found)["enableInterNodeCommunication"] is True
            assert pool(found)["taskSlotsPerNode"] == 1
            nodes = task["multiInstanceSettings"]["numberOfInstances"]
            text = pool(found)["autoScaleFormula"]["$clock"]
            (most,) = re.findall(r"^most = (\d+);", text, re.MULTILINE)
            assert nodes <= int(most)


@pytest.mark.parametrize("name", JOBS)
def test_files_for_all_nodes_are_common_resource_files(name: str) -> None:
    """Plain resource files reach the first node alone."""
    for task in tasks(steps(JOBS[name])):
        gang = task.get("multiInstanceSettings")
        files = task["resourceFiles"] if gang is None else gang["commonResourceFiles"]

        assert [file["filePath"] for file in files] == ["inside.pyz"]
        assert gang is None or "resourceFiles" not in task


@pytest.mark.parametrize("name", JOBS)
def test_every_command_line_has_a_shell_where_it_wants_one(name: str) -> None:
    for task in tasks(steps(JOBS[name])):
        gang = task.get("multiInstanceSettings", {})
        lines = [task["commandLine"], gang.get("coordinationCommandLine", "/bin/sh -c ''")]

        assert all(line.startswith("/bin/sh -c '") and line.endswith("'") for line in lines)


@pytest.mark.parametrize("name", JOBS)
def test_a_pool_is_for_containers_when_its_tasks_are_in_some(name: str) -> None:
    found = steps(JOBS[name])
    machine = pool(found)["virtualMachineConfiguration"]
    inside = ["containerSettings" in task for task in tasks(found)]

    assert len(set(inside)) == 1
    assert inside[0] == ("containerConfiguration" in machine)


@pytest.mark.parametrize("name", JOBS)
def test_a_pool_has_a_formula_or_targets(name: str) -> None:
    made = pool(steps(JOBS[name]))

    assert made["enableAutoScale"]
    assert not {"targetDedicatedNodes", "targetLowPriorityNodes", "resizeTimeout"} & made.keys()


@pytest.mark.parametrize("name", JOBS)
def test_a_job_ends_by_itself_after_its_tasks_are_there_and_not_before(name: str) -> None:
    found = steps(JOBS[name])
    order = [s.do.operation for s in found if s.scope is Scope.RUN]

    assert bodies(found, "Job_Add")[0]["onAllTasksComplete"] == "noaction"
    assert order[-1] == "Job_Patch"
    assert bodies(found, "Job_Patch") == [{"onAllTasksComplete": "terminatejob"}]
    assert order.index("Job_Add") < order.index("Task_AddCollection")


@pytest.mark.parametrize("name", JOBS)
def test_every_id_is_one_that_the_service_takes(name: str) -> None:
    found = steps(JOBS[name])
    ids = [pool(found)["id"], bodies(found, "Job_Add")[0]["id"], *(t["id"] for t in tasks(found))]

    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", one) for one in ids)
    assert len({one.lower() for one in ids}) == len(ids)


@pytest.mark.parametrize("name", JOBS)
def test_no_call_has_more_tasks_than_the_service_takes(name: str) -> None:
    collections = bodies(steps(JOBS[name]), "Task_AddCollection")

    assert all(1 <= len(body["value"]) <= 100 for body in collections)


def test_a_sweep_of_a_thousand_is_submitted_by_twelve_calls() -> None:
    """The pool's own are before them, and as many for one task: it is made, or woken if it is there."""
    found = steps(spec(sweep={"a": "1..1000"}))

    calls = [s.do.operation for s in found if s.do.service == "batch"]
    submitted = ["Job_Add", *["Task_AddCollection"] * 10, "Job_Patch"]
    assert calls == ["Pool_Add", "Pool_EnableAutoScale", *submitted]
    assert len(submitted) == 12


def test_a_mount_has_one_way_to_log_in() -> None:
    (mount,) = pool(steps(JOBS["mounts"]))["mountConfiguration"]
    (kind,) = mount.values()

    assert len({"accountKey", "sasKey", "identityReference"} & kind.keys()) == 1


@pytest.mark.parametrize("name", JOBS)
def test_every_file_of_a_task_comes_from_one_place(name: str) -> None:
    ways = {"httpUrl", "storageContainerUrl", "autoStorageContainerName"}

    for task in tasks(steps(JOBS[name])):
        gang = task.get("multiInstanceSettings", {})
        for file in [*task.get("resourceFiles", ()), *gang.get("commonResourceFiles", ())]:
            assert len(ways & file.keys()) == 1


@pytest.mark.parametrize("name", JOBS)
def test_the_output_of_a_task_is_uploaded_at_its_end(name: str) -> None:
    for task in tasks(steps(JOBS[name])):
        (kept,) = [f for f in task["outputFiles"] if f["filePattern"] == "../std*.txt"]

        assert kept["uploadOptions"]["uploadCondition"] == "taskcompletion"


@pytest.mark.parametrize("name", JOBS)
def test_no_plan_has_what_this_api_or_only_some_accounts_take(name: str) -> None:
    """Tags of resources are for user subscription accounts alone; a pool's identity is of the other API."""
    assert (
        not {"resourceTags", "identity", "targetNodeCommunicationMode"}
        & pool(steps(JOBS[name])).keys()
    )
