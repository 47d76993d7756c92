"""What a job becomes on Azure Batch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_agent.store import managed_identity
from runspec_agent.store.blob import REFUSED
from runspec_azure.batch import PROVIDER, job
from runspec_azure.batch.options import BatchOptions
from runspec_jobs.provider import Facts, Request, Source, Spec, Step
from runspec_jobs.testing import documents
from tests.support.azure.specs import IDENTITY

SHARED = {"name": "w", "source": "shared://work/a", "target": "/w"}
PROFILE: dict[str, Any] = {
    "batch_url": "https://jobs.westeurope.batch.azure.com",
    "storage_account": "jobstore",
    "container": "jobs",
}


def spec(**fields: Any) -> Spec:
    own: dict[str, Any] = {"apiVersion": "runspec/v1", "name": "n", "provider": "azure-batch"}
    own |= {} if "run" in fields else {"command": ["echo", 'a word\'s "own"']}
    found, problems = documents.parse_spec(documents.merge(own, fields))
    assert found is not None, problems
    return found


def planned(wanted: Spec, **profile: Any) -> tuple[Step, ...]:
    sources = {m.name: Source("sha256:00", 1, 1) for m in wanted.mounts}
    options = BatchOptions.model_validate({**PROFILE, **profile})
    return tuple(PROVIDER.plan(wanted, "n-abc123", Facts(options, sources)))


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


def test_nodes_that_come_and_go_are_single_tasks_of_a_pool_whose_nodes_talk() -> None:
    """Each is queued again by itself; failures of the program are counted by its nodes."""
    steps = planned(spec(cluster={"nodes": {"min": 1, "max": 3}}))

    (added,) = requests(steps, "Task_AddCollection")
    tasks = added.params["body"]["value"]
    assert [task["id"] for task in tasks] == [f"task-0000{n}" for n in range(3)]
    assert not any("multiInstanceSettings" in task for task in tasks)
    assert tasks[0]["constraints"]["maxTaskRetryCount"] == 4
    assert body(steps, "Pool_Add")["enableInterNodeCommunication"] is True


@pytest.mark.parametrize("nodes", [1, 2])
def test_only_a_lost_right_to_the_store_ends_what_is_left_of_a_sweep(nodes: int) -> None:
    """Any other failure would, too, where nothing is said of it."""
    steps = planned(spec(sweep={"n": [1, 2]}, cluster={"nodes": nodes}), pool="mine")

    assert body(steps, "Job_Add")["onTaskFailure"] == "performexitoptionsjobaction"
    for task in body(steps, "Task_AddCollection")["value"]:
        assert task["exitConditions"] == {
            "exitCodes": [{"code": 77, "exitOptions": {"jobAction": "terminate"}}],
            "default": {"jobAction": "none"},
        }
    (record,) = [step.do for step in steps if step.id == "record"]
    assert json.loads(record.params["body"])["stops"] == REFUSED == managed_identity.REFUSED


def test_a_sweep_goes_on_where_a_programs_code_cannot_be_told_from_a_lost_right() -> None:
    steps = planned(spec(container={"image": "a/b:1"}), pool="mine", files="signed")

    assert "onTaskFailure" not in body(steps, "Job_Add")
    assert "exitConditions" not in body(steps, "Task_AddCollection")["value"][0]


def test_nodes_of_a_smoke_test_are_told_what_to_look_at_when_they_cannot_talk() -> None:
    smoke = {"cluster": {"nodes": 2}, "env": {"RUNSPEC_SMOKE": "1"}}

    steps = planned(spec(**smoke), pool="mine")

    (record,) = [step.do for step in steps if step.id == "record"]
    rule = json.loads(record.params["body"])["reach"]
    assert rule.startswith("pool mine must have enableInterNodeCommunication")


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
    assert "RUNSPEC_DISK" not in words(planned(spec()))
    assert "RUNSPEC_BELOW" not in words(planned(spec(container={"image": "a:1"})))
    assert "RUNSPEC_DISK=AZ_BATCH_TASK_WORKING_DIR" in words(
        planned(spec(container={"image": "a:1"}))
    )


@pytest.mark.parametrize(
    ("fields", "kind", "root"),
    [
        ({}, "nfs:h:/a", False),
        ({"container": {"image": "a:1"}}, "nfs:h:/a", True),
        ({"container": {"image": "a:1"}, "cluster": {"nodes": 2}}, "nfs:h:/a", True),
        ({"mounts": [SHARED]}, "nfs:h:/a", False),
        ({"mounts": [SHARED]}, "blob:jobs/a", True),
    ],
)
def test_a_task_is_root_where_nobody_else_can_do_it(
    fields: dict[str, Any], kind: str, root: bool
) -> None:
    """In a container, to make /job; and where blobfuse mounts, which lets nobody else in."""
    steps = planned(spec(**fields), shared={"work": kind}, storage_key="env:KEY")

    (task,) = body(steps, "Task_AddCollection")["value"]
    wanted = {"autoUser": {"scope": "pool", "elevationLevel": "admin"}}
    assert task.get("userIdentity") == (wanted if root else None)


@pytest.mark.parametrize("files", ["agent", "signed"])
def test_the_entrypoint_of_an_image_is_read_before_the_job_is_made(files: str) -> None:
    """The plan needs no registry; the job runs the image by the digest that has this ENTRYPOINT."""
    wanted = spec(container={"image": "h.io/a:1"})
    container = wanted.container.model_copy(update={"entrypoint": "image"})
    wanted = wanted.model_copy(update={"command": None, "container": container})
    steps = planned(wanted, files=files)

    (read,) = (step for step in steps if step.id == "entrypoint")
    assert read.do == Request("registry", "read_entrypoint", {"image": "h.io/a:1"})
    assert read.title == "read the ENTRYPOINT of h.io/a:1 from its registry"
    names = [step.id for step in steps]
    assert names.index("entrypoint") < names.index("job")
    variables = body(steps, "Job_Add")["commonEnvironmentSettings"]
    assert {"name": "RUNSPEC_ENTRYPOINT", "value": {"$ref": "entrypoint.code"}} in variables
    (task,) = body(steps, "Task_AddCollection")["value"]
    assert task["containerSettings"]["imageName"] == {"$ref": "entrypoint.image"}


def test_gpus_are_not_asked_for_twice() -> None:
    """A machine that has them gives them to containers: --gpus is not to be there."""
    steps = planned(spec(container={"image": "a:1"}, cluster={"gpus": 1}))

    (task,) = body(steps, "Task_AddCollection")["value"]
    assert task["containerSettings"]["containerRunOptions"] == (
        "--rm --entrypoint /usr/bin/env --ipc=host"
    )


@pytest.mark.parametrize(
    ("own", "is_amd"),
    [
        ({"cluster": {"gpus": 8, "gpu_type": "MI300X"}}, True),
        ({"cluster": {"gpus": 8, "gpu_type": "A100"}}, False),
        ({"cluster": {"cpus": 2}}, False),
    ],
)
def test_containers_get_the_devices_of_gpus_of_amd(own: dict[str, Any], is_amd: bool) -> None:
    """https://rocm.docs.amd.com/projects/install-on-linux/en/latest/how-to/docker.html"""
    for profile in ({}, {"pool": "mine"}):
        there = {"batch_url": "https://a.westus3.batch.azure.com", **profile}
        (task,) = body(
            planned(spec(container={"image": "a:1"}, **own), **there),
            "Task_AddCollection",
        )["value"]
        words = task["containerSettings"]["containerRunOptions"].split()

        devices = [word for word in words if word.startswith("--device")]
        assert devices == (["--device=/dev/kfd", "--device=/dev/dri"] if is_amd else [])


def test_a_container_has_the_limits_of_the_spec() -> None:
    steps = planned(spec(container={"image": "a:1"}, ulimits={"memlock": -1, "nofile": 9}))

    (task,) = body(steps, "Task_AddCollection")["value"]
    words = task["containerSettings"]["containerRunOptions"].split()
    assert words[-2:] == ["--ulimit=memlock=-1:-1", "--ulimit=nofile=9:9"]


def test_a_login_without_a_registry_is_one_of_docker() -> None:
    login = {"registry_user": "me", "registry_password": "env:PASSWORD"}
    steps = planned(spec(container={"image": "me/a:1"}), **login)

    machine = body(steps, "Pool_Add")["virtualMachineConfiguration"]
    assert machine["containerConfiguration"]["containerRegistries"] == [
        {"username": "me", "password": {"$secret": "env:PASSWORD"}}
    ]


@pytest.mark.parametrize(
    ("own", "login"),
    [
        (
            {"registry": "r.example.org", "registry_user": "me", "registry_password": "env:P"},
            {"registryServer": "r.example.org", "username": "me", "password": {"$secret": "env:P"}},
        ),
        (
            {"registry": "mine.azurecr.io", "identity": IDENTITY},
            {"registryServer": "mine.azurecr.io", "identityReference": {"resourceId": IDENTITY}},
        ),
        ({}, None),
    ],
)
def test_tasks_in_a_pool_of_the_profile_log_in_to_the_registry(
    own: dict[str, Any], login: dict[str, Any] | None
) -> None:
    image = {"container": {"image": f"{own.get('registry', 'r.example.org')}/a:1"}}

    (task,) = body(planned(spec(**image), pool="mine", **own), "Task_AddCollection")["value"]
    (other,) = body(planned(spec(**image), **{**own, "identity": None}), "Task_AddCollection")[
        "value"
    ]

    assert task["containerSettings"].get("registry") == login
    assert "registry" not in other["containerSettings"]


def test_retries_are_the_services_own_and_its_limit_leaves_time_to_save() -> None:
    """The agent keeps the timeout itself, with a SIGTERM, which the service has not."""
    steps = planned(spec(retry={"attempts": 3}, timeout="2h", sweep={"n": [1, 2]}, max_parallel=1))

    limits = body(steps, "Task_AddCollection")["value"][0]["constraints"]
    assert (limits["maxTaskRetryCount"], limits["maxWallClockTime"]) == (2, "PT7340S")
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
    steps = planned(spec(), pool="mine", identity=IDENTITY)

    (task,) = body(steps, "Task_AddCollection")["value"]
    assert "$signed" not in json.dumps(task)
    where = task["outputFiles"][0]["destination"]["container"]
    assert where["identityReference"] == {"resourceId": IDENTITY}


def test_no_signature_goes_to_a_job_that_has_an_identity() -> None:
    own = {"identity": IDENTITY, "subscription": "s", "resource_group": "g"}
    steps = planned(spec(), **own)

    assert "$signed" not in json.dumps([step.do.params for step in steps])
    settings = body(steps, "Job_Add")["commonEnvironmentSettings"]
    assert {"name": "RUNSPEC_IDENTITY", "value": IDENTITY} in settings
    assert "RUNSPEC_SAS" not in [one["name"] for one in settings]


def test_a_pool_with_an_identity_is_made_by_the_resource_manager_and_is_another_pool() -> None:
    own = {"identity": IDENTITY, "subscription": "s", "resource_group": "g"}
    (step,) = [step for step in planned(spec(), **own) if step.id == "pool"]
    plain = body(planned(spec()), "Pool_Add")

    assert (step.do.service, step.do.operation) == ("arm", "Pool_Create")
    assert step.do.params["path"] == {
        "subscriptionId": "s",
        "resourceGroupName": "g",
        "accountName": "jobs",
        "poolName": step.undo.params["path"]["poolId"] if step.undo else "",
    }
    assert step.do.params["path"]["poolName"] != plain["id"]
    made = step.do.params["body"]
    assert list(made["identity"]["userAssignedIdentities"]) == [IDENTITY]
    assert made["properties"]["vmSize"] == plain["vmSize"]
    assert made["properties"]["scaleSettings"]["autoScale"]["formula"] == plain["autoScaleFormula"]
    assert made["properties"]["scaleSettings"]["autoScale"]["formula"].keys() == {"$clock"}
    assert made["properties"]["metadata"] == plain["metadata"]


def test_of_a_secret_in_a_vault_the_plan_says_where_it_is_and_nobody_reads_it_here() -> None:
    where = "https://v.vault.azure.net/secrets/hf"
    secrets = {"hf": f"azure-kv:{where}", "own": "env:OWN"}
    wanted = spec(secrets={"HF_TOKEN": "hf", "OWN": "own"})

    steps = planned(wanted, pool="mine", identity=IDENTITY, secrets=secrets)

    settings = body(steps, "Job_Add")["commonEnvironmentSettings"]
    found = {one["name"]: one["value"] for one in settings}
    assert json.loads(found["RUNSPEC_VAULT"]) == {"HF_TOKEN": where}
    assert found["OWN"] == {"$secret": "env:OWN"}
    assert "HF_TOKEN" not in found


def test_with_a_vault_in_the_profile_a_secret_is_one_of_the_run_and_no_variable_of_the_job() -> (
    None
):
    vault = {"vault": "https://v.vault.azure.net/", "identity": IDENTITY, "pool": "mine"}
    wanted = spec(secrets={"HF_TOKEN": "hf", "Odd": "hf"})

    steps = planned(wanted, secrets={"hf": "env:HF"}, **vault)

    settings = body(steps, "Job_Add")["commonEnvironmentSettings"]
    found = {one["name"]: one["value"] for one in settings}
    urls = json.loads(found["RUNSPEC_VAULT"])
    assert not {"HF_TOKEN", "Odd"} & found.keys()
    assert urls["HF_TOKEN"].startswith("https://v.vault.azure.net/secrets/runspec-")
    made = [step for step in steps if step.do.operation == "Secret_Set"]
    names = [step.do.params["path"]["name"] for step in made]
    assert [url.rpartition("/")[2] for url in urls.values()] == names
    assert len({name.lower() for name in names}) == 2
    assert made[0].do.params["body"]["value"] == {"$secret": "env:HF"}
    assert [step.undo.params["path"]["name"] for step in made if step.undo] == names


LAZY = {"name": "sets", "source": "store://sets/cifar", "target": "/sets", "mode": "lazy"}


@pytest.mark.parametrize("login", [{"storage_key": "env:K"}, {"identity": IDENTITY}])
def test_a_lazy_mount_is_one_of_the_pool_that_nobody_can_write(login: dict[str, str]) -> None:
    """https://learn.microsoft.com/azure/batch/virtual-file-mount"""
    steps = planned(spec(mounts=[LAZY]), **login)

    pools = [step.do.params for step in steps if step.id == "pool"]
    text = json.dumps(pools)
    assert '"containerName": "jobs"' in text and '"accountName": "jobstore"' in text
    assert '"relativeMountPath": "runspec-store"' in text
    assert '"blobfuseOptions": "-o ro"' in text
    (record,) = [step.do.params["body"] for step in steps if step.id == "record"]
    (mount,) = json.loads(record)["mounts"]
    assert (mount["kind"], mount["path"]) == ("folder", "runspec-store/runspec/store/sets/cifar")
    assert mount["exists"], "what is missing is an error"


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        ({}, "storage_key or identity"),
        ({"storage_key": "env:K", "pool": "mine"}, "the profile's pool"),
        ({"storage_key": "env:K", "blob_url": "https://blobs.example"}, "blob_url"),
        ({"storage_key": "env:K", "files": "signed"}, "signed URLs"),
        (
            {
                "storage_key": "env:K",
                "image": "microsoft-dsvm:ubuntu-hpc:2204:latest",
                "node_agent": "batch.node.ubuntu 22.04",
            },
            "no blobfuse",
        ),
    ],
)
def test_a_lazy_mount_is_copied_where_the_machines_cannot_mount_it(
    profile: dict[str, str], why: str
) -> None:
    wanted = spec(mounts=[LAZY])
    facts = Facts(BatchOptions.model_validate({**PROFILE, **profile}))

    notes = [p for p in PROVIDER.check(wanted, facts) if p.path == ("mounts", 0, "mode")]

    (note,) = notes
    assert note.severity == "note" and why in note.what
    if profile.get("files") != "signed":
        (record,) = [s.do.params["body"] for s in planned(wanted, **profile) if s.id == "record"]
        assert json.loads(record)["mounts"][0]["kind"] == "prefix"
