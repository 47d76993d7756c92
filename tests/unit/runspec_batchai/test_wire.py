"""Every body of a plan is one that Batch AI knows, by two witnesses: the SDK's models, the description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from runspec_jobs.provider import Request, requests_of
from tests.support.azure import batch_ai_bodies, batch_ai_specs
from tests.unit.specs.test_plans import BATCH_AI, planned

VOLUMES = {
    "files": {"share": "data", "file_mode": "0755", "directory_mode": "0755"},
    "blobs": {"container": "blobs", "mount_options": "-o attr_timeout=240"},
    "nfs": {
        "file_server": "/subscriptions/1/fileservers/nfs",
        "folder": "d",
        "mount_options": "rw",
    },
    "other": {"command": "mount -t nfs 10.0.0.4:/data"},
    "all": {"share": "all", "level": "cluster"},
}
EVERYTHING: dict[str, Any] = {
    "shared": VOLUMES,
    "scale": "manual",
    "deallocation": "requeue",
    "machine_image": {"publisher": "p", "offer": "o", "sku": "s", "version": "v", "id": "/i"},
    "admin_password": "pw",
    "subnet": "/subscriptions/1/subnets/s",
    "setup": {"command": "a", "env": {"A": "1"}, "secrets": {"B": "pw"}, "logs": "/l"},
    "insights": {"component": "/c", "key": "vault"},
    "registry": {"server": "https://r", "username": "u", "password": "pw"},
    "preparation": "bash prep.sh",
    "priority": "high",
    "secrets": {
        "pw": "env:PW",
        "vault": "azure-kv:/subscriptions/1/vaults/kv#https://kv/secrets/t",
    },
}


def fullest() -> Any:
    """A spec that asks for all there is."""
    mounts = [{"name": n, "source": f"shared://{n}/x", "target": f"/job/{n}"} for n in VOLUMES]
    return batch_ai_specs.spec(
        cluster={"nodes": 2, "capacity": "spot", "gpus": 1},
        container={"image": "i:1", "shm": "2GiB", "requirements": ["six==1.17.0"]},
        mounts=[*mounts, {"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "model", "path": "/job/model"}],
        env={"A": "1"},
        secrets={"T": "pw", "V": "vault"},
        launch="mpi",
        timeout="1d",
        run='echo "${mounts.code}" > "${outputs.model}/x"',
    )


def requests() -> Iterator[tuple[str, Request]]:
    plans = {path.stem: planned(path, name, engine) for path, name, engine in BATCH_AI}
    plans["everything"] = batch_ai_specs.planned(fullest(), **EVERYTHING)
    for name, made in plans.items():
        for step in made.steps:
            for request in (
                r for whole in (step.do, step.undo) if whole for r in requests_of(whole)
            ):
                if request.service == "batchai":
                    yield f"{name} {step.id} {request.operation}", request


REQUESTS = dict(requests())


@pytest.mark.parametrize("name", REQUESTS)
def test_the_sdk_knows_every_key_that_is_sent(name: str) -> None:
    request = REQUESTS[name]
    if "body" not in request.params:
        assert request.operation.endswith("_Delete") or request.operation == "Experiments_Create"
        return

    assert (
        batch_ai_bodies.by_sdk(request.operation, batch_ai_bodies.plain(request.params["body"]))
        == []
    )


@pytest.mark.parametrize("name", REQUESTS)
def test_the_official_description_knows_every_part_of_a_request(name: str) -> None:
    if not batch_ai_bodies.SWAGGER.exists():
        pytest.skip("the official description is not at hand")
    request = REQUESTS[name]

    assert (
        batch_ai_bodies.by_description(request.operation, batch_ai_bodies.plain(request.params))
        == []
    )


def test_a_word_of_ours_that_the_sdk_does_not_know_is_seen() -> None:
    """The oracle itself: the SDK would drop it and send the rest."""
    body = {"properties": {"nodeCont": 2, "chainerSettings": {"processCount": "2"}}}

    assert len(batch_ai_bodies.by_sdk("Jobs_Create", body)) == 3


@pytest.mark.parametrize("name", ["PutJob", "PutCluster", "PutWorkspace"])
def test_the_official_examples_pass_both_witnesses(name: str) -> None:
    if not batch_ai_bodies.EXAMPLES.exists():
        pytest.skip("the official examples are not at hand")
    body = json.loads((batch_ai_bodies.EXAMPLES / f"{name}.json").read_text())["parameters"][
        "parameters"
    ]
    operation = f"{name.removeprefix('Put')}s_Create"

    assert batch_ai_bodies.by_sdk(operation, body) == []
