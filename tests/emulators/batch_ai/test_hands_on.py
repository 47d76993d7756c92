"""The hands-on, call for call: two nodes of low priority, a ChainerMN job, its log, its model, the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.emulators.batch_ai.hand import EXPERIMENT, PLACE, USER, Hand, get, until
from tests.emulators.batch_ai.test_toolkits import FAKE_MPIRUN

TRAIN = """
import os, sys, time
print("epoch       main/loss", flush=True)
for epoch in range(3):
    print(f"{epoch}           0.{epoch}", flush=True)
    time.sleep(0.05)
open(os.path.join(sys.argv[2], "model"), "w").write("weights")
print("\\u7d42\\u308f\\u308a", flush=True)
"""
ROOT = "$AZ_BATCHAI_JOB_MOUNT_ROOT"
KEY = {"accountKey": "k"}


def job_of(cluster: str) -> dict[str, Any]:
    blobs = [
        {"accountName": "a", "containerName": n, "credentials": KEY, "relativeMountPath": n}
        for n in ("scripts", "data")
    ]
    share = {
        "accountName": "a",
        "azureFileUrl": "https://a.file.core.windows.net/logs",
        "credentials": KEY,
        "relativeMountPath": "logs",
    }
    return {
        "cluster": {"id": cluster},
        "nodeCount": 2,
        "chainerSettings": {
            "processCount": 2,
            "pythonScriptFilePath": f"{ROOT}/scripts/train.py",
            "pythonInterpreterPath": sys.executable,
            "commandLineArgs": "-o $AZ_BATCHAI_OUTPUT_MODEL",
        },
        "stdOutErrPathPrefix": f"{ROOT}/logs",
        "mountVolumes": {"azureFileShares": [share], "azureBlobFileSystems": blobs},
        "outputDirectories": [{"id": "MODEL", "pathPrefix": f"{ROOT}/data"}],
        "containerSettings": {
            "imageSourceRegistry": {"image": "batchaitraining/chainermn:openMPI"}
        },
    }


def followed(hand: Hand) -> bytes:
    """Read the log to its end: state first, then the file."""
    link = until(lambda: hand.files().get("stdout.txt")).download_url
    log = b""
    while True:
        over = hand.job().execution_state in ("succeeded", "failed")
        found = get(link, f"bytes={len(log)}-")
        assert found.status in (206, 416)
        log += found.body if found.status == 206 else b""
        if over:
            return log


def test_the_hands_on_goes_through_call_for_call(make: Callable[..., Hand], tmp_path: Path) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(FAKE_MPIRUN)
    mpirun.chmod(0o755)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "train.py").write_text(TRAIN)
    hand = make(mpirun=(str(mpirun),), folders={"a/scripts": str(scripts)})
    client = hand.client
    hand.resources.resource_groups.create_or_update("group", {"location": "eastus"})
    client.workspaces.begin_create(*PLACE, {"location": "eastus"}).result()
    auto = {"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 2}}
    asked = {"vmSize": "STANDARD_NC6", "vmPriority": "lowpriority", "userAccountSettings": USER}
    cluster = client.clusters.begin_create(
        *PLACE, "cluster", {"properties": {**asked, "scaleSettings": auto}}
    ).result()
    client.experiments.begin_create(*EXPERIMENT).result()

    client.jobs.begin_create(*EXPERIMENT, "job", {"properties": job_of(cluster.id)}).result()
    log = followed(hand)
    model = hand.text("model", "MODEL")
    client.jobs.begin_delete(*EXPERIMENT, "job").result()
    client.clusters.begin_delete(*PLACE, "cluster").result()
    hand.resources.resource_groups.begin_delete("group").result()

    assert log.decode().splitlines().count("2           0.2") == 2
    assert log.decode().endswith("終わり\n")
    assert model == "weights"
    assert list(client.workspaces.list()) == []
    assert hand.stand.control("GET", "nodes") == []
