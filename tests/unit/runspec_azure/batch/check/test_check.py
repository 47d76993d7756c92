"""What Azure Batch cannot do of a spec is told before anything is made, with a way out."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_azure.batch import PROVIDER
from runspec_jobs.provider import Facts
from tests.support.azure.specs import (
    IDENTITY,
    SHARED,
    STORE,
    errors,
    notes,
    options,
    problems,
    spec,
)

GPU = ("cluster", "gpu_type")
COMPUTE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
GALLERY = f"{COMPUTE}/galleries/g/images/i/versions/1.0.0"
OLDER = {
    "image": "microsoft-dsvm:ubuntu-hpc:2204:latest",
    "node_agent": "batch.node.ubuntu 22.04",
}
TOO_MANY = [{"name": f"m{i}", "source": f"shared://f{i}", "target": f"/m{i}"} for i in range(11)]
FILES = {f"f{i}": f"nfs:h:/{i}" for i in range(11)}

# What a spec asks for, the profile beside the usual one, and where the error is.
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[Any, ...]]] = {
    "another attempt for an image": (
        {"retry": {"on": [{"reason": "image", "action": "retry"}]}},
        {},
        ("retry", "on", 0, "reason"),
    ),
    "memory that grows": (
        {
            "cluster": {"memory": "1GiB"},
            "retry": {
                "attempts": 2,
                "on": [
                    {
                        "reason": "oom",
                        "action": "retry",
                        "memory": {"grow": 2, "most": "64GiB"},
                    }
                ],
            },
        },
        {},
        ("retry", "on", 0, "memory"),
    ),
    "a container without an identity": (
        {"mounts": [{"name": "a", "source": "az://lab/data/x", "target": "/a"}]},
        {},
        ("mounts", 0, "source"),
    ),
    "a bucket of S3, of which it has no identity": (
        {"mounts": [{"name": "a", "source": "s3://lab/x", "target": "/a"}]},
        {"identity": IDENTITY, "storage_key": None},
        ("mounts", 0, "source"),
    ),
    "more nodes than a pool may have": (
        {"cluster": {"nodes": 17}},
        {"max_nodes": 16},
        ("cluster", "nodes"),
    ),
    "more nodes than talk to each other": (
        {"cluster": {"nodes": 101}},
        {"max_nodes": 1000, "pool_allocation": "batch-service"},
        ("cluster", "nodes"),
    ),
    "more than in an account of the subscription's own": (
        {"cluster": {"nodes": 81}},
        {"max_nodes": 1000},
        ("cluster", "nodes"),
    ),
    "several nodes that share machines": (
        {"cluster": {"nodes": 2}},
        {"tasks_per_node": 2},
        ("provider",),
    ),
    "GPUs that tasks share": ({"cluster": {"gpus": 1}}, {"tasks_per_node": 2}, ("provider",)),
    "more tasks than a machine runs": (
        {},
        {"tasks_per_node": 9, "vm_size": "Standard_D2ds_v5"},
        ("provider",),
    ),
    "more shared machines than the formula counts": (
        {"sweep": {"n": "0..9"}},
        {"tasks_per_node": 2, "max_nodes": 351},
        ("provider",),
    ),
    "a wait for spot that is shorter than a formula": ({}, {"spot_wait": "4m"}, ("provider",)),
    "a wait for spot that is longer than samples are kept": (
        {},
        {"spot_wait": "61m"},
        ("provider",),
    ),
    "a variable of Batch": ({"env": {"AZ_BATCH_JOB_ID": "1"}}, {}, ("env", "AZ_BATCH_JOB_ID")),
    "more env than a request holds": (
        {"env": dict.fromkeys("ABC", "é" * 60000)},
        {},
        ("env",),
    ),
    "a secret variable of Batch": (
        {"secrets": {"AZ_BATCH_T": "t"}},
        {"secrets": {"t": "env:T"}},
        ("secrets", "AZ_BATCH_T"),
    ),
    "an image of this machine": (
        {"container": {"image": "localhost/a:1"}},
        {},
        ("container", "image"),
    ),
    "an image of podman": ({"container": {"image": "docker://a"}}, {}, ("container", "image")),
    "an image in a file": ({"container": {"image": "./a.sif"}}, {}, ("container", "image")),
    "a task that is longer than Batch allows": ({"timeout": "181d"}, {}, ("timeout",)),
    "a size that is not sold as spot": (
        {"cluster": {"capacity": "spot"}},
        {"vm_size": "Standard_B2s_v2"},
        ("cluster", "capacity"),
    ),
    "an unknown GPU": ({"cluster": {"gpus": 1, "gpu_type": "A1000"}}, {}, GPU),
    "a GPU that was retired": ({"cluster": {"gpus": 1, "gpu_type": "K80"}}, {}, GPU),
    "more GPUs than a machine has": ({"cluster": {"gpus": 9}}, {}, ("cluster", "gpus")),
    "more GPUs of a kind than a machine has": (
        {"cluster": {"gpus": 5, "gpu_type": "T4"}},
        {},
        ("cluster", "gpus"),
    ),
    "more cores than a machine has": ({"cluster": {"cpus": 177}}, {}, ("cluster", "cpus")),
    "more memory than a machine has": (
        {"cluster": {"memory": "1024GiB"}},
        {},
        ("cluster", "memory"),
    ),
    "all that the largest machines have, together": (
        {"cluster": {"cpus": 176, "memory": "900GiB"}},
        {},
        ("cluster",),
    ),
    "more disk than a machine has": (
        {"cluster": {"disk": "4000GiB"}},
        {},
        ("cluster", "disk"),
    ),
    "a faster disk than that of the machine": (
        {"cluster": {"disk": {"tier": "high"}}},
        {},
        ("cluster", "disk", "tier"),
    ),
    "a retired size": ({}, {"vm_size": "STANDARD_NC6"}, ("provider",)),
    "a size that is no name": ({}, {"vm_size": "D2ds_v5"}, ("provider",)),
    "fewer cores than asked for": (
        {"cluster": {"cpus": 3}},
        {"vm_size": "Standard_D2ds_v5"},
        ("cluster", "cpus"),
    ),
    "no GPU where one is asked for": (
        {"cluster": {"gpus": 1}},
        {"vm_size": "Standard_D2ds_v5"},
        ("cluster", "gpus"),
    ),
    "another GPU than is asked for": (
        {"cluster": {"gpus": 1, "gpu_type": "A100"}},
        {"vm_size": "Standard_NC4as_T4_v3"},
        GPU,
    ),
    "all of the machine's memory": (
        {"cluster": {"memory": "8GiB"}},
        {"vm_size": "Standard_D2ds_v5"},
        ("cluster", "memory"),
    ),
    "less disk than asked for": (
        {"cluster": {"disk": "76GiB"}},
        {"vm_size": "Standard_D2ds_v5"},
        ("cluster", "disk"),
    ),
    "a node agent of another image": (
        {},
        {"image": "microsoft-dsvm:ubuntu-hpc:2404:latest", "node_agent": "batch.node.ubuntu 22.04"},
        ("provider",),
    ),
    "a managed image, which Azure Batch has retired": (
        {},
        {"image": f"{COMPUTE}/images/mine", "node_agent": "batch.node.ubuntu 24.04"},
        ("provider",),
    ),
    "a GPU whose driver the image has not": (
        {"cluster": {"gpus": 1, "gpu_type": "A10"}},
        {},
        ("cluster", "gpu_type"),
    ),
    "a V100, which the open modules of the usual image do not drive": (
        {"cluster": {"gpus": 8, "gpu_type": "V100"}},
        {},
        ("cluster", "gpu_type"),
    ),
    "a V100 with the older image": (
        {"cluster": {"gpus": 8}},
        {"vm_size": "Standard_ND40rs_v2", **OLDER},
        ("provider",),
    ),
    "a GPU of AMD": (
        {"cluster": {"gpus": 8}},
        {"vm_size": "Standard_ND96isr_MI300X_v5"},
        ("provider",),
    ),
    "a GPU of NVIDIA with the image for AMD": (
        {"cluster": {"gpus": 1, "gpu_type": "T4"}},
        {"image": "microsoft-dsvm:ubuntu-hpc:2404-rocm:latest"},
        ("cluster", "gpu_type"),
    ),
    "a size with a GPU whose driver the image has not": (
        {"cluster": {"gpus": 1}},
        {"vm_size": "Standard_NV36ads_A10_v5"},
        ("provider",),
    ),
    "machines without addresses in no network": ({}, {"public_addresses": False}, ("provider",)),
    "no account": ({}, {"batch_url": None}, ("provider",)),
    "no storage": ({}, {"storage_account": None}, ("provider",)),
    "no container": ({}, {"container": None}, ("provider",)),
    "an identity, and no place to make a pool with it": (
        {},
        {"identity": IDENTITY, "subscription": "s"},
        ("provider",),
    ),
    "signatures of a login for too long": (
        {},
        {"storage_key": None, "signed_for": "8d"},
        ("provider",),
    ),
    "a job that outlives its signature": ({"timeout": "8d"}, {}, ("timeout",)),
    "a job that outlives a short signature": (
        {"timeout": "2h"},
        {"signed_for": "1h"},
        ("timeout",),
    ),
    "a job that outlives what a login signs": (
        {"timeout": "8d"},
        {"storage_key": None},
        ("timeout",),
    ),
    "a job as long as the key of a login": (
        {"timeout": "7d"},
        {"storage_key": None},
        ("timeout",),
    ),
    "a login in the open": (
        {},
        {"batch_url": "http://127.0.0.1:1"},
        ("provider",),
    ),
    "a login to blobs in the open": (
        {},
        {"blob_url": "http://localhost:2", "storage_key": None},
        ("provider",),
    ),
    "blobs of another cloud": (
        {},
        {"blob_url": "https://mine.blob.core.usgovcloudapi.net"},
        ("provider",),
    ),
    "a cloud that the account is not in": ({}, {"cloud": "china"}, ("provider",)),
    "a vault of another cloud": (
        {"secrets": {"T": "hf"}},
        {
            "secrets": {"hf": "azure-kv:https://v.vault.azure.cn/secrets/hf"},
            "pool": "p",
            "identity": IDENTITY,
        },
        ("secrets", "T"),
    ),
    "a vault of the profile in another cloud": (
        {},
        {"vault": "https://v.vault.azure.cn", "pool": "p", "identity": IDENTITY},
        ("provider",),
    ),
    "a vault of the profile for a job without identity": (
        {"secrets": {"T": "hf"}},
        {"secrets": {"hf": "env:HF"}, "vault": "https://v.vault.azure.net"},
        ("provider",),
    ),
    "half a login to a registry": (
        {},
        {"registry": "r.azurecr.io", "registry_user": "u"},
        ("provider",),
    ),
    "a pool that cannot be": ({}, {"pool": "a" * 65}, ("provider",)),
    "a store that is written": ({"mounts": [{**STORE, "mode": "rw"}]}, {}, ("mounts", 0, "mode")),
    "a store above its root": (
        {"mounts": [{**STORE, "source": "store:///d"}]},
        {},
        ("mounts", 0, "source"),
    ),
    "a file system nobody named": ({"mounts": [SHARED]}, {}, ("mounts", 0, "source")),
    "a share without its key": (
        {"mounts": [SHARED]},
        {"shared": {"work": "files:others/share"}},
        ("mounts", 0, "source"),
    ),
    "one mount too many": ({"mounts": TOO_MANY}, {"shared": FILES}, ("mounts", 10, "source")),
    "a secret nobody named": ({"secrets": {"T": "hf"}}, {}, ("secrets", "T")),
    "a secret that is in no vault": (
        {"secrets": {"T": "hf"}},
        {"secrets": {"hf": "azure-kv:v/hf"}, "pool": "p", "identity": IDENTITY},
        ("secrets", "T"),
    ),
    "a secret in a vault for a job without identity": (
        {"secrets": {"T": "hf"}},
        {"secrets": {"hf": "azure-kv:https://v.vault.azure.net/secrets/hf"}},
        ("secrets", "T"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_unsupported_spec_is_an_error_at_its_field(name: str) -> None:
    fields, profile, where = REFUSED[name]

    assert where in errors(spec(**fields), **profile)


@pytest.mark.parametrize("name", REFUSED)
def test_every_error_names_a_way_out(name: str) -> None:
    fields, profile, _ = REFUSED[name]

    found = [p for p in problems(spec(**fields), **profile) if p.severity == "error"]

    assert all(problem.hint for problem in found)


GOOD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one node": ({}, {}),
    "a gang": ({"cluster": {"nodes": 16}}, {}),
    "tasks that share machines": (
        {"sweep": {"n": "0..9"}},
        {"tasks_per_node": 8, "max_nodes": 350},
    ),
    "as many nodes as talk to each other": (
        {"cluster": {"nodes": 100}},
        {"max_nodes": 100, "pool_allocation": "batch-service"},
    ),
    "a gang on spot machines": ({"cluster": {"nodes": 2, "capacity": "spot"}}, {}),
    "many nodes in a pool that is there": ({"cluster": {"nodes": 20}}, {"pool": "p"}),
    "a GPU": ({"cluster": {"gpus": 1, "gpu_type": "a100"}}, {}),
    "all that a machine has for jobs": (
        {"cluster": {"memory": "7GiB"}},
        {"vm_size": "Standard_D2ds_v5"},
    ),
    "any GPU of a machine that the profile names": (
        {"cluster": {"gpus": 1, "gpu_type": "B300"}},
        {"vm_size": "Standard_ND128isr_B300_v7"},
    ),
    "any GPU of a pool that is there": ({"cluster": {"gpus": 1, "gpu_type": "K80"}}, {"pool": "p"}),
    "the longest task": ({"timeout": "180d"}, {"signed_for": "180d"}),
    "the largest sweep": ({"sweep": {"a": "1..10000"}, "max_parallel": 3}, {}),
    "an image of one machine with requirements": (
        {"container": {"image": "localhost/a:1", "requirements": ["six"]}},
        {},
    ),
    "another image and its node agent": (
        {},
        {"image": "microsoft-dsvm:ubuntu-hpc:2404:latest", "node_agent": "batch.node.ubuntu 24.04"},
    ),
    "an image of one's own": ({}, {"image": GALLERY, "node_agent": "batch.node.el 9"}),
    "ten mounts": ({"mounts": TOO_MANY[:10]}, {"shared": FILES}),
    "many folders of one file system": (
        {"mounts": [{**m, "source": f"shared://f0/{i}"} for i, m in enumerate(TOO_MANY)]},
        {"shared": FILES},
    ),
    "a share of the own account": ({"mounts": [SHARED]}, {"shared": {"work": "files:jobs/share"}}),
    "a share with its key": (
        {"mounts": [SHARED]},
        {"shared": {"work": "blob:others/c"}, "account_keys": {"others": "env:K"}},
    ),
    "a secret": ({"secrets": {"T": "hf"}}, {"secrets": {"hf": "env:T"}}),
    "a folder of this machine by its whole name": (
        {"mounts": [{"name": "d", "source": "/d", "target": "/d"}]},
        {},
    ),
    "signatures of a login for a week": ({}, {"storage_key": None, "signed_for": "7d"}),
    "signatures of a key for a month": ({}, {"signed_for": "30d"}),
    "a job as long as its signature": ({"timeout": "30d"}, {"signed_for": "30d"}),
    "keys, which are not sent, in the open": (
        {},
        {"batch_url": "http://127.0.0.1:1", "batch_key": "env:K", "blob_url": "http://localhost:2"},
    ),
    "an identity of pools that are made": (
        {},
        {"identity": IDENTITY, "subscription": "s", "resource_group": "g", "storage_key": None},
    ),
    "a job of months that has an identity": (
        {"timeout": "90d"},
        {"pool": "p", "identity": IDENTITY},
    ),
    "a secret in a vault": (
        {"secrets": {"T": "hf"}},
        {
            "secrets": {"hf": "azure-kv:/vaults/v#https://v.vault.azure.net/secrets/hf"},
            "pool": "p",
            "identity": IDENTITY,
        },
    ),
    "a secret in a file": ({"secrets": {"T": "hf"}}, {"secrets": {"hf": "file:/t"}}),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_supported_spec_has_no_error(name: str) -> None:
    fields, profile = GOOD[name]

    assert errors(spec(**fields), **profile) == []


# What is said and stops nothing: the spec, the profile, where it is said.
TOLD: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[Any, ...]]] = {
    "all nodes begin again": (
        {"cluster": {"nodes": 2, "capacity": "spot"}},
        {},
        ("cluster", "capacity"),
    ),
    "an image of one machine": (
        {"container": {"image": "localhost/a:1", "requirements": ["six"]}},
        {},
        ("container", "image"),
    ),
    "placement that cannot be asked for": (
        {"cluster": {"nodes": 2, "placement": "close"}},
        {},
        ("cluster", "placement"),
    ),
    "what a gang needs of a pool that is there": (
        {"cluster": {"nodes": 2}},
        {"pool": "p"},
        ("cluster", "nodes"),
    ),
    "what an image needs of a pool that is there": (
        {"container": {"image": "a:1"}},
        {"pool": "p"},
        ("container", "image"),
    ),
    "what no image needs of a pool that is there": ({}, {"pool": "p"}, ("provider",)),
    "a pool that decides": ({"cluster": {"cpus": 2}}, {"pool": "p"}, ("cluster", "cpus")),
    "a mount that the pool has to have": (
        {"mounts": [SHARED]},
        {"pool": "p"},
        ("mounts", 0, "source"),
    ),
    "a registry that asks who one is": (
        {"container": {"image": "mine.azurecr.io/a:1"}},
        {"registry": "other.azurecr.io"},
        ("container", "image"),
    ),
    "an NFS server that nothing leads to": (
        {"mounts": [SHARED]},
        {"shared": {"work": "nfs:10.0.0.4:/data"}},
        ("mounts", 0, "source"),
    ),
    "a size that leaves": ({}, {"vm_size": "standard_d2_v2"}, ("provider",)),
    "what requirements need": (
        {"container": {"image": "a:1", "requirements": ["six"]}},
        {},
        ("container", "requirements"),
    ),
    "the Python that is there": ({"container": {"python": ">=3.9"}}, {}, ("container", "python")),
    "memory to share on a machine": ({"container": {"shm": "1GiB"}}, {}, ("container", "shm")),
    "who sees secrets": (
        {"secrets": {"T": "hf"}},
        {"secrets": {"hf": "env:T"}},
        ("secrets", "T"),
    ),
}


TOLD |= {
    "a GPU whose driver the start task installs": (
        {"cluster": {"gpus": 1, "gpu_type": "A10"}},
        {"start_task": "sh /opt/grid.run"},
        ("cluster", "gpu_type"),
    ),
    "containers on an image of one's own": (
        {"container": {"image": "python:3.12"}},
        {"image": GALLERY},
        ("container", "image"),
    ),
    "machines that may stay": ({"cluster": {"nodes": 2}}, {}, ("cluster", "nodes")),
    "blobfuse where there is none": (
        {"mounts": [SHARED]},
        {"shared": {"work": "blob:jobs/a"}, **OLDER},
        ("mounts", 0, "source"),
    ),
    "a second file system by blobfuse": (
        {"mounts": [SHARED, {"name": "b", "source": "shared://more", "target": "/b"}]},
        {
            "shared": {"work": "blob:jobs/a", "more": "blob:jobs/b"},
        },
        ("mounts", 0, "source"),
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_surprising_behavior_gets_a_note(name: str) -> None:
    fields, profile, where = TOLD[name]

    assert where in notes(spec(**fields), **profile)
    assert errors(spec(**fields), **profile) == []


USUAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an image": ({"container": {"image": "python:3.12"}}, {}),
    "blobfuse where there is one": (
        {"mounts": [SHARED]},
        {"shared": {"work": "blob:jobs/a"}},
    ),
    "an image of a registry that is logged in to": (
        {"container": {"image": "mine.azurecr.io/a:1"}},
        {"registry": "mine.azurecr.io"},
    ),
    "NFS in a network of one's own": (
        {"mounts": [SHARED]},
        {"shared": {"work": "nfs:h:/d"}, "subnet": "/subscriptions/s/subnets/a"},
    ),
    "Azure Files": ({"mounts": [SHARED]}, {"shared": {"work": "files:jobs/share"}}),
    "spot machines": ({"cluster": {"capacity": "spot"}}, {}),
}


@pytest.mark.parametrize("name", USUAL)
def test_a_usual_job_is_told_nothing(name: str) -> None:
    fields, profile = USUAL[name]

    assert problems(spec(**fields), **profile) == []


@pytest.mark.parametrize(
    ("cluster", "profile"),
    [({"placement": "close"}, {}), ({}, {"pool": "p"}), ({"capacity": "spot"}, {})],
)
def test_a_single_node_gets_no_note_about_pools_of_many(
    cluster: dict[str, Any], profile: dict[str, Any]
) -> None:
    told = [path for path in notes(spec(cluster=cluster), **profile) if path[0] == "cluster"]

    assert told == []


def test_a_file_system_that_is_missing_may_be_a_share_or_a_container() -> None:
    (problem,) = problems(spec(mounts=[SHARED]))

    assert problem.hint and "'files:ACCOUNT/SHARE'" in problem.hint
    assert "'blob:ACCOUNT/CONTAINER'" in problem.hint


def test_an_unknown_gpu_that_is_nearly_known_is_named() -> None:
    (problem,) = problems(spec(cluster={"gpus": 1, "gpu_type": "H1000"}))

    assert problem.hint == "did you mean 'h100'?"


def test_a_retired_gpu_says_when_and_what_there_is_instead() -> None:
    (problem,) = problems(spec(cluster={"gpus": 1, "gpu_type": "p100"}))

    assert "2023-09-06" in problem.what
    assert problem.hint and "H100" in problem.hint


@pytest.mark.parametrize("mode", ["batch-service", "user-subscription", None])
@pytest.mark.parametrize("capacity", ["spot", "spot-then-on-demand"])
def test_capacity_spot_is_accepted_without_a_note_in_every_mode_of_accounts(
    capacity: str, mode: str | None
) -> None:
    on_spot = spec(cluster={"capacity": capacity})

    assert errors(on_spot, pool_allocation=mode) == []
    assert notes(on_spot, pool_allocation=mode) == []


@pytest.mark.parametrize(
    ("gpu_type", "image", "agent"),
    [
        ("V100", "microsoft-dsvm:ubuntu-hpc:2204-v100:latest", "batch.node.ubuntu 22.04"),
        ("MI300X", "microsoft-dsvm:ubuntu-hpc:2404-rocm:latest", "batch.node.ubuntu 24.04"),
    ],
)
def test_a_gpu_without_a_driver_is_accepted_with_the_image_that_the_hint_names(
    gpu_type: str, image: str, agent: str
) -> None:
    sizes = {"V100": "Standard_ND40rs_v2", "MI300X": "Standard_ND96isr_MI300X_v5"}
    wanted = spec(cluster={"gpus": 8})

    (refused,) = [p for p in problems(wanted, vm_size=sizes[gpu_type]) if p.severity == "error"]

    assert refused.hint and f"image: {image} and node_agent: {agent}" in refused.hint
    assert errors(wanted, vm_size=sizes[gpu_type], image=image, node_agent=agent) == []


def test_the_allocation_mode_of_the_account_overrides_the_profile() -> None:
    many = spec(cluster={"nodes": 90})

    found = errors(many, {"pool_allocation": "user-subscription"}, max_nodes=1000)

    assert found == [("cluster", "nodes")]


def test_a_gpu_that_the_subscription_has_not_is_refused() -> None:
    survey = {"machines": {"Standard_NC4as_T4_v3": {"spot": True}}}

    assert errors(spec(cluster={"gpus": 1, "gpu_type": "A100"}), survey) == [GPU]
    assert errors(spec(cluster={"gpus": 1, "gpu_type": "T4"}), survey) == []
    assert errors(spec(), survey) == [("cluster",)]


def test_a_machine_of_other_regions_is_reported_with_these_regions() -> None:
    needs = {"gpus": 8, "gpu_type": "H200"}
    (found,) = [
        p
        for p in problems(spec(cluster=needs), batch_url="https://a.eastus.batch.azure.com")
        if p.severity == "error"
    ]

    assert found.what == "no machine that is large enough is offered in eastus"
    assert found.hint == (
        "choose another GPU, or one of the regions eastus2, westus2, westus3, northeurope and 5 more, "
        "or set vm_size in the profile"
    )


def test_more_nodes_than_a_pool_can_connect_is_a_problem() -> None:
    told = [p.what for p in problems(spec(cluster={"nodes": 2}), max_nodes=300)]

    assert any("max_nodes: 300" in what and "80 at most" in what for what in told)
    assert not any(
        "max_nodes" in p.what for p in problems(spec(cluster={"nodes": 2}), max_nodes=80)
    )
    assert problems(spec(), max_nodes=300) == []


def test_validation_alone_asks_for_no_profile() -> None:
    """Facts that are not complete come from the spec alone."""
    facts = Facts(options(batch_url=None), complete=False)

    assert list(PROVIDER.check(spec(secrets={"T": "hf"}), facts)) == []


def test_chips_of_another_service_are_refused_with_the_reason() -> None:
    wanted = spec(cluster={"gpus": 8, "gpu_type": "Trainium"})

    (found,) = [p for p in problems(wanted) if p.path == GPU]

    assert found.what.startswith("'Trainium' needs devices and drivers of Neuron")
    assert found.hint and "MI300X" in found.hint


def test_a_gpu_of_amd_asks_for_the_image_with_its_driver() -> None:
    wanted = spec(cluster={"gpus": 8, "gpu_type": "MI300X"})
    rocm: dict[str, Any] = {
        "image": "microsoft-dsvm:ubuntu-hpc:2404-rocm:latest",
        "node_agent": "batch.node.ubuntu 24.04",
    }
    there: dict[str, Any] = {"batch_url": "https://a.westus3.batch.azure.com"}

    (refused,) = [p for p in problems(wanted, **there) if p.path == GPU]

    assert refused.hint and f"image: {rocm['image']}" in refused.hint
    assert errors(wanted, **there, **rocm) == []
