"""Every shape of the public recipes, taken in, really runs: small programs stand in for the frameworks.

The files are those of `tests/support/azure/batch_ai_recipes.py`. `python`, `cntk` and `caffe` are one script
here that says how it was started; mpirun is one of a few lines, and `apt` and `pip` do nothing.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.mgmt.batchai import BatchAI as Client
from azure.mgmt.resource.resources import ResourceManagementClient

from runspec_emulators.batch_ai import BatchAI
from runspec_jobs.cli.app import run
from tests.emulators.batch_ai.hand import USER, Bearer
from tests.emulators.batch_ai.test_toolkits import FAKE_MPIRUN
from tests.support.azure.batch_ai_recipes import KEY, RECIPES

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
OTHER_KEY = KEY.replace("b", "c")
THEIRS = "/subscriptions/1/x/fileservers/nfs"  # the file server that a recipe speaks of
# Says its words, with the names of places instead of them; a parameter server stays, as they do, and
# the others wait until it has said so.
SHOW = """
import os, pathlib, sys, time
words = sys.argv[1:]
if words[0] == "python":
    assert pathlib.Path(words[1]).is_file(), words
    words[1:2] = [os.path.basename(words[1])]
text = " ".join(words)
kinds = ("AZ_BATCHAI_INPUT_", "AZ_BATCHAI_OUTPUT_", "AZ_BATCHAI_SHARED_JOB_TEMP")
places = {v: k for k, v in os.environ.items() if k.startswith(kinds)}
for where in sorted(places, key=len, reverse=True):
    text = text.replace(where, places[where].replace("AZ_BATCHAI_", ""))
text = text.replace(os.environ.get("AZ_BATCHAI_PS_HOSTS", "nobody"), "HOSTS")
print("ran", text, os.environ.get("EPOCHS", ""), flush=True)
there = pathlib.Path(os.environ["AZ_BATCHAI_SHARED_JOB_TEMP"], "server")
if "--job_name=ps" in words:
    there.touch()
    time.sleep(300)
while "--job_name=worker" in words and not there.exists():
    time.sleep(0.01)
pathlib.Path(os.environ["AZ_BATCHAI_OUTPUT_MODEL"], f"made-{os.getpid()}").write_text(text)
"""
TRAIN = "python train.py"
CASES: dict[str, list[str]] = {
    "hands-on": ["python train_mnist.py -g -o OUTPUT_MODEL"] * 2,
    "chainer": [f"{TRAIN} --data INPUT_DATASET --out OUTPUT_MODEL"] * 4,
    "horovod": [TRAIN] * 2,
    "pytorch": [f"{TRAIN} --epochs 1 --dist-url file://SHARED_JOB_TEMP/init"] * 2,
    "tensorflow": [
        f"{TRAIN} --job_name=ps --num_gpus=0",
        f"{TRAIN} --job_name=worker --ps_hosts=HOSTS",
        f"{TRAIN} --job_name=worker --task_index=1",
    ],
    "cntk in python": [f"{TRAIN} --datadir INPUT_DATASET"] * 2,
    "cntk in brainscript": [
        "cntk configFile=INPUT_SCRIPTS/ConvNet_MNIST.cntk RootDir=OUTPUT_MODEL parallelTrain=true"
    ],
    "caffe": ["caffe train -solver INPUT_SCRIPTS/lenet_solver.prototxt --gpu all"],
    "caffe2": [f"{TRAIN} --batch 10"],
    "custom mpi": [f"{TRAIN} --x"] * 4,  # three, and the stand-in's mpirun fills every slot
    "custom": [f"{TRAIN} 20"],
    "every mount": [],
    "secrets": [],
}
SECRETS = {
    "AZURE_BATCHAI_STORAGE_KEY": KEY,
    "OTHER_KEY": OTHER_KEY,
    "REGISTRY_PASSWORD": "a-password",
    "HF_TOKEN": "a-token",
}
CLUSTER = {
    "properties": {
        "vmSize": "STANDARD_NC6",
        "vmPriority": "lowpriority",
        "scaleSettings": {"manual": {"targetNodeCount": 2}},
        "userAccountSettings": {"adminUserName": "me", "adminUserSshPublicKey": "ssh-rsa AAAA"},
    }
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recipes")


@pytest.fixture(scope="module")
def stand(folder: Path) -> Iterator[BatchAI]:
    """One subscription for all: its machines have the programs, its shares the scripts."""
    programs(folder / "bin")
    shares = folder / "cloud/storage/acct"
    for path in ("scripts/net", "scripts/chainer", "data/mnist"):
        (shares / path).mkdir(parents=True)
    for path in ("net/train.py", "train.py", "chainer/train_mnist.py"):
        (shares / "scripts" / path).touch()
    (folder / "gluster").mkdir()
    settings: dict[str, Any] = {
        "accounts": {"acct": KEY, "other": OTHER_KEY},
        "machine_env": {"PATH": str(folder / "bin")},  # and no other: nothing is to be installed
        "unmanaged": {"mount -t glusterfs 10.0.0.4:/vol": str(folder / "gluster")},
    }
    with pytest.MonkeyPatch.context() as patch, BatchAI(folder / "cloud", **settings) as found:
        for name, value in found.env.items():
            patch.setenv(name, value)
        yield found


def programs(folder: Path) -> None:
    folder.mkdir()
    (folder / "show.py").write_text(SHOW)
    show = f'#!/bin/sh\nexec {sys.executable} {folder}/show.py "$(basename "$0")" "$@"\n'
    texts = dict.fromkeys(("python", "cntk", "caffe"), show)
    texts |= dict.fromkeys(("apt", "pip"), "#!/bin/sh\n")
    for name in ("bash", "basename", "dirname", "sh", "tee"):
        (folder / name).symlink_to(str(shutil.which(name)))
    for name, text in {**texts, "mpirun": FAKE_MPIRUN}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def file_server(stand: BatchAI) -> str:
    """Give the id of a file server of somebody else's workspace."""
    common: dict[str, Any] = {
        "base_url": stand.url,
        "authentication_policy": Bearer(stand.token()),
        "polling_interval": 0,
    }
    nobody: Any = object()  # the policy gives the token
    subscription = stand.env["AZURE_SUBSCRIPTION_ID"]
    groups: Any = ResourceManagementClient(nobody, subscription, **common).resource_groups
    groups.create_or_update("theirs", {"location": "eastus"})
    client: Any = Client(nobody, subscription, **common)
    client.workspaces.begin_create("theirs", "theirs", {"location": "eastus"}).result()
    body = {
        "vmSize": "STANDARD_D2",
        "sshConfiguration": {"userAccountSettings": USER},
        "dataDisks": {"diskSizeInGB": 1, "diskCount": 1, "storageAccountType": "Standard_LRS"},
    }
    made = client.file_servers.begin_create("theirs", "theirs", "nfs", {"properties": body})
    return str(made.result().id)


def taken_in(name: str, stand: BatchAI, programs: Path) -> None:
    """Have the recipe's files taken in here, and say where the account and its service are."""
    folder = Path.cwd()
    file = json.dumps(RECIPES[name])
    file = file.replace("/opt/conda/bin/python", str(programs / "python"))
    if THEIRS in file:
        file = file.replace(THEIRS, file_server(stand))
    (folder / "job.json").write_text(file)
    (folder / "cluster.json").write_text(json.dumps(CLUSTER))
    assert run(["import", "job.json", "--cluster", "cluster.json", "--to", "."]) == 0
    profile = folder / "runspec-profile.yaml"
    own = {
        "arm_url": stand.url,
        "location": "eastus",
        "subscription": stand.env["AZURE_SUBSCRIPTION_ID"],
        "storage_account": "acct",
    }
    head = "  azure-batch-ai:\n"
    kept = [
        row
        for row in profile.read_text().splitlines()
        if not row.startswith("    storage_account:")
    ]
    lines = "".join(f"    {key}: {value}\n" for key, value in own.items())
    profile.write_text("\n".join(kept).replace(head, head + lines) + "\n")
    assert run(["trust"]) == 0


@pytest.mark.parametrize("name", CASES)
def test_the_shape_of_a_recipe_runs_as_the_service_ran_it(
    name: str,
    stand: BatchAI,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    for key, value in SECRETS.items():
        monkeypatch.setenv(key, value)
    taken_in(name, stand, folder / "bin")
    capsys.readouterr()

    code = run(["apply", "job.yaml"])

    told = capsys.readouterr()
    assert code == 0, told.err + told.out
    assert said(capsys) == sorted(CASES[name])
    assert run(["fetch", "job", "out"]) == 0
    made = {path.read_text() for path in (tmp_path / "out").rglob("made-*")}
    assert made == {text.removesuffix(" 20") for text in CASES[name] if "=ps" not in text}
    name_of_run = told.err.partition("runspec: run ")[2].split()[0]
    assert run(["destroy", "job"]) == 0
    assert name_of_run not in {job["name"] for job in stand.control("GET", "jobs")}


def said(capsys: Capture) -> list[str]:
    """Give what the processes of the job printed, in any order."""
    run(["logs", "job", "--json"])
    lines = [json.loads(row)["line"] for row in capsys.readouterr().out.splitlines()]
    return sorted(line.removeprefix("ran ").strip() for line in lines if line.startswith("ran "))


def test_every_recipe_with_a_cluster_of_runspec_is_run_here() -> None:
    """The one that is left out names a cluster that is there already."""
    assert RECIPES.keys() - CASES.keys() == {"a cluster of its own"}
