"""What a job becomes on Azure Batch."""

from __future__ import annotations

import json
from typing import Any

from runspec.provider import Facts, Request, Source, Spec, Step
from runspec.testing import documents
from runspec_azure.batch import job, plan
from runspec_azure.batch.options import BatchOptions

PROFILE: dict[str, Any] = {
    "batch_url": "https://jobs.westeurope.batch.azure.com",
    "storage_account": "jobstore",
    "container": "jobs",
}


def spec(**fields: Any) -> Spec:
    own: dict[str, Any] = {"apiVersion": "runspec/v1", "name": "n", "provider": "azure-batch"}
    own |= {} if "run" in fields else {"command": ["echo", 'a word\'s "own"']}
    found, problems = documents.spec(documents.merged(own, fields))
    assert found is not None, problems
    return found


def planned(wanted: Spec, **profile: Any) -> tuple[Step, ...]:
    sources = {m.name: Source("sha256:00", 1, 1) for m in wanted.mounts}
    options = BatchOptions.model_validate({**PROFILE, **profile})
    return plan.steps(wanted, "n-abc123", Facts(options, sources))


def requests(steps: tuple[Step, ...], operation: str) -> list[Request]:
    return [step.do for step in steps if step.do.operation == operation]


def body(steps: tuple[Step, ...], operation: str) -> Any:
    (found,) = requests(steps, operation)
    return found.params["body"]


def test_a_sweep_of_1000_is_a_job_ten_collections_and_a_patch() -> None:
    steps = planned(spec(sweep={"n": "1..1000"}), pool="mine")

    calls = [step.do.operation for step in steps if step.do.service == "batch"]
    assert calls == ["Job_Add", *["Task_AddCollection"] * 10, "Job_Patch"]
    ids = [
        t["id"] for r in requests(steps, "Task_AddCollection") for t in r.params["body"]["value"]
    ]
    assert ids == [f"task-{n:05}" for n in range(1000)]


def test_no_word_of_the_user_is_in_a_command_line() -> None:
    steps = planned(spec())

    (task,) = body(steps, "Task_AddCollection")["value"]
    assert task["commandLine"] == job.COMMAND
    record = next(step.do.params["body"] for step in steps if step.id == "record")
    assert json.loads(record)["argv"] == ["echo", 'a word\'s "own"']


def test_an_empty_job_is_not_told_to_end_with_its_last_task() -> None:
    steps = planned(spec())

    assert body(steps, "Job_Add")["onAllTasksComplete"] == "noaction"
    assert steps[-1].do.params["body"] == {"onAllTasksComplete": "terminatejob"}


def test_secrets_and_signatures_are_names_in_a_plan() -> None:
    steps = planned(spec(secrets={"TOKEN": "hf"}), secrets={"hf": "env:HF"}, storage_key="env:KEY")

    env = {e["name"]: e["value"] for e in body(steps, "Job_Add")["commonEnvironmentSettings"]}
    assert env["TOKEN"] == {"$secret": "env:HF"}
    assert env["RUNSPEC_SAS"] == {"$signed": "racwdl"}
    (task,) = body(steps, "Task_AddCollection")["value"]
    assert task["resourceFiles"][0]["httpUrl"].keys() == {"$signed"}


def test_many_nodes_are_one_task_that_its_pool_can_hold() -> None:
    steps = planned(spec(cluster={"nodes": 3}))

    pool = body(steps, "Pool_Add")
    assert (pool["enableInterNodeCommunication"], pool["taskSlotsPerNode"]) == (True, 1)
    (task,) = body(steps, "Task_AddCollection")["value"]
    assert "resourceFiles" not in task  # they would reach the first node alone
    many = task["multiInstanceSettings"]
    assert many["numberOfInstances"] == 3
    assert many["commonResourceFiles"][0]["filePath"] == "inside.pyz"


def test_pools_for_containers_and_tasks_in_containers_go_together() -> None:
    with_image, without = planned(spec(container={"image": "a:1"})), planned(spec())

    for steps, there in ((with_image, True), (without, False)):
        machine = body(steps, "Pool_Add")["virtualMachineConfiguration"]
        (task,) = body(steps, "Task_AddCollection")["value"]
        assert ("containerConfiguration" in machine) is there
        assert ("containerSettings" in task) is there


def test_the_paths_of_a_job_without_an_image_are_below_its_own_folder() -> None:
    def words(steps: tuple[Step, ...]) -> str:
        env = {e["name"]: e["value"] for e in body(steps, "Job_Add")["commonEnvironmentSettings"]}
        return str(env["RUNSPEC_WORDS"])

    assert "RUNSPEC_BELOW=AZ_BATCH_TASK_WORKING_DIR" in words(planned(spec()))
    assert "RUNSPEC_BELOW" not in words(planned(spec(container={"image": "a:1"})))


def test_retries_and_the_longest_time_are_the_services_own() -> None:
    steps = planned(spec(retry={"attempts": 3}, timeout="2h", sweep={"n": [1, 2]}, max_parallel=1))

    limits = body(steps, "Task_AddCollection")["value"][0]["constraints"]
    assert (limits["maxTaskRetryCount"], limits["maxWallClockTime"]) == (2, "PT7200S")
    assert body(steps, "Job_Add")["maxParallelTasks"] == 1


def test_equal_needs_share_a_pool_and_others_do_not() -> None:
    def pool(**fields: Any) -> str:
        return str(body(planned(spec(**fields)), "Pool_Add")["id"])

    assert pool() == pool(name="other", sweep={"n": "1..9"}, retry={"attempts": 2})
    assert len({pool(), pool(cluster={"nodes": 2}), pool(cluster={"capacity": "spot"})}) == 3


def test_a_pool_of_the_profile_is_used_as_it_is() -> None:
    steps = planned(spec(), pool="mine")

    assert requests(steps, "Pool_Add") == []
    assert body(steps, "Job_Add")["poolInfo"] == {"poolId": "mine"}


def test_an_identity_of_the_pool_takes_the_place_of_signed_urls() -> None:
    steps = planned(spec(), pool="mine", identity="/subscriptions/0/identities/jobs")

    (task,) = body(steps, "Task_AddCollection")["value"]
    assert "$signed" not in json.dumps(task)
    where = task["outputFiles"][0]["destination"]["container"]
    assert where["identityReference"] == {"resourceId": "/subscriptions/0/identities/jobs"}
