"""What a pod of Kubernetes is made of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_jobs.provider import Request
from runspec_kubernetes import store_layout
from runspec_kubernetes.decision import decide
from tests.unit.runspec_kubernetes.plans import (
    CODE,
    MODEL,
    RUN,
    STORE,
    WORDS,
    container_of,
    env_of,
    errors,
    job_of,
    make_facts,
    make_spec,
    paths_of,
    pod_of,
    steps_of,
)

KEYS = {"AWS_ACCESS_KEY_ID": "env:ID", "AWS_SECRET_ACCESS_KEY": "env:KEY"}


def test_text_reaches_the_job_as_it_is_written() -> None:
    """Kubernetes replaces $(NAME) in variables and commands, and makes $ of $$."""
    found = env_of(env={"PRICE": "$5 $$ $(HOME) ${HOME}"})

    assert found["PRICE"] == "$$5 $$$$ $$(HOME) $${HOME}"


@pytest.mark.parametrize("kind", ["env", "secrets"])
def test_a_home_of_the_spec_takes_the_place_of_ours(kind: str) -> None:
    found = env_of(**{kind: {"HOME": "home"}})

    expected = {"secretKeyRef": {"name": RUN, "key": "HOME"}} if kind == "secrets" else "home"
    assert found["HOME"] == expected


def test_secrets_with_one_name_are_variables_of_one_secret() -> None:
    steps = steps_of(make_spec(secrets={"A": "token", "B": "token"}), {**STORE, "store_keys": KEYS})

    content = steps["secret"].do.params["body"]["stringData"]
    assert content == {
        "A": {"$secret": "env:TOKEN"},
        "B": {"$secret": "env:TOKEN"},
        "RUNSPEC_S3_ACCESS_KEY_ID": {"$secret": "env:ID"},
        "RUNSPEC_S3_SECRET_ACCESS_KEY": {"$secret": "env:KEY"},
    }


def test_volumes_of_shared_file_systems_have_names_that_kubernetes_takes() -> None:
    names = ["a_b", "a-b", "a-"]
    mounts = [
        {"name": f"m{n}", "source": f"shared://{name}/sub/dir", "target": f"/job/{n}", "mode": mode}
        for n, (name, mode) in enumerate(zip(names, ["ro", "rw", "ro"], strict=True))
    ]
    profile = {**STORE, "shared": {name: f"pvc:{n}" for n, name in enumerate(names)}}

    pod = pod_of(profile, mounts=mounts)

    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert claims == {"shared-0": "2", "shared-1": "1", "shared-2": "0"}
    placed = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert placed["/job/1"] == {"name": "shared-1", "mountPath": "/job/1", "subPath": "sub/dir"}
    assert placed["/job/0"]["readOnly"] and placed["/runspec-shared/a_b"]["readOnly"]


def test_a_share_that_is_read_and_written_is_mounted_for_both() -> None:
    mounts = [
        {"name": mode, "source": f"shared://work/{mode}", "target": f"/job/{mode}", "mode": mode}
        for mode in ("ro", "rw")
    ]

    container = container_of({**STORE, "shared": {"work": "pvc:work"}}, mounts=mounts)

    placed = {m["mountPath"]: m.get("readOnly", False) for m in container["volumeMounts"]}
    assert (placed["/job/ro"], placed["/job/rw"], placed["/runspec-shared/work"]) == (
        True,
        False,
        False,
    )


def test_no_path_has_two_volumes() -> None:
    more = {"name": "more", "source": "./more.txt", "target": "/job/in/more.txt"}

    found = paths_of(mounts=[WORDS, more, CODE], outputs=[MODEL], container={"shm": "1GiB"})

    assert len(found) == len(set(found))


def test_nodes_with_spot_machines_are_avoided_on_demand() -> None:
    affinity = pod_of({**STORE, "cloud": "karpenter"})["affinity"]["nodeAffinity"]

    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]}
    ]


@pytest.mark.parametrize("most,expected", [(1, 0), (2, 1), (9, None)])
def test_a_sweep_ends_after_as_many_failed_tasks_as_it_may_have(
    most: int, expected: int | None
) -> None:
    found = job_of(sweep={"n": "1..3"}, max_failed=most).get("maxFailedIndexes")

    assert found == expected


def test_objects_of_a_run_alone_have_the_labels_of_the_profile() -> None:
    """All runs of a namespace share the agent, whatever their profiles say."""
    steps = steps_of(make_spec(), {**STORE, "labels": {"team": "digits"}})

    found = {
        name: steps[name].do.params["body"]["metadata"]["labels"].get("team")
        for name in ("agent", "job")
    }
    assert found == {"agent": None, "job": "digits"}


def test_an_image_of_this_machine_gives_way_to_packages() -> None:
    image = {"image": "localhost/mine:1"}

    found = [
        container_of(container=container)["image"]
        for container in (image, {**image, "requirements": ["numpy"]})
    ]
    assert found == ["localhost/mine:1", "docker.io/library/python:3.11-slim"]


@pytest.mark.parametrize(
    "profile,expected",
    [
        ({"store": "az://jobstore/jobs/r", "service_account": "job"}, "true"),
        ({"store": "az://jobstore/jobs/r"}, None),
        ({**STORE, "service_account": "job"}, None),
    ],
)
def test_azure_gives_pods_the_identity_of_their_service_account_by_a_label(
    profile: dict[str, Any], expected: str | None
) -> None:
    found = job_of(profile)["template"]["metadata"]["labels"]

    assert found.get("azure.workload.identity/use") == expected


SERVED = {"image": "h.io/a:1", "entrypoint": "image", "args": ["serve"]}


@pytest.mark.parametrize(
    ("labels", "machine"), [({}, "amd64"), ({"kubernetes.io/arch": "arm64"}, "arm64")]
)
def test_an_entrypoint_is_read_for_the_nodes_before_the_job_is_made(
    labels: dict[str, str], machine: str
) -> None:
    fields: dict[str, Any] = {"container": SERVED}

    steps = steps_of(make_spec(**fields), {**STORE, "node_selector": labels})

    params = {"image": "h.io/a:1", "architecture": machine}
    assert steps["entrypoint"].do == Request("registry", "read_entrypoint", params)
    assert [*steps].index("entrypoint") < [*steps].index("job")
    assert container_of(**fields)["image"] == {"$ref": "entrypoint.image"}
    assert env_of(**fields)["RUNSPEC_ENTRYPOINT"] == {"$ref": "entrypoint.code"}


def test_an_entrypoint_that_no_registry_knows_is_refused() -> None:
    spec = make_spec(container={**SERVED, "image": "localhost/a:1"})

    assert errors(spec) == ["no registry says which ENTRYPOINT the image has"]


@pytest.mark.parametrize(
    ("fields", "profile", "stops"),
    [
        ({}, STORE, False),
        ({"sweep": {"lr": [1, 2]}}, STORE, True),
        ({"sweep": {"lr": [1, 2]}}, {}, False),
    ],
)
def test_tasks_of_a_sweep_with_a_store_alone_can_be_stopped(
    fields: dict[str, Any], profile: dict[str, Any], stops: bool
) -> None:
    spec = make_spec(**fields)
    facts = make_facts(spec, profile)

    record = json.loads(store_layout.describe(decide(spec, facts), spec, RUN, facts))

    assert ("stop_s" in record, "repeats_stopped" in record) == (stops, stops)
