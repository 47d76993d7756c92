"""The hands-on of Batch AI, step for step, from one spec; the same file on all other providers; one changed field."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from azure.storage.blob import ContainerClient

from runspec_batchai import emulator
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.batch_ai import BatchAI
from tests.conftest import CACHES
from tests.support.azure.batch_ai_recipes import HANDS_ON, KEY
from tests.support.main_job import apply_main_job
from tests.support.requirements import need
from tests.support.root import ROOT
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow

HEADER = "epoch main/loss validation/main/loss main/accuracy validation/main/accuracy elapsed_time"
ROW = re.compile(r"^(?:\[node 0\] )?(\d+)((?:\s+[\d.e-]+){5})\s*$")
REHEARSED = ("aws-batch", "azure-batch", "slurm")
CONTAINER = "jobs"


class Shown(NamedTuple):
    """What came of the job: the log, what was told beside it, and the folder of what it wrote."""

    log: str
    told: str
    outputs: Path
    cloud: BatchAI | None = None
    """The stand-in as the job left it."""
    first_line: str = ""
    """How the job was when the first line of its log had come."""
    calls: tuple[dict[str, Any], ...] = ()
    left: tuple[str, ...] = ()
    """The blobs that were there after the end."""

    def lines(self) -> list[str]:
        return [line.removeprefix("[node 0] ") for line in self.log.splitlines()]

    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.lines() if ROW.match(line)]


def runspec(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "runspec_jobs", *words]
    done = subprocess.run(line, env=os.environ | env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def written(folder: Path, provider: str) -> str:
    """Give the example as it stands, on machines of low priority; the provider is all that differs."""
    shutil.copytree(ROOT / "specs" / "mnist", folder / "mnist", dirs_exist_ok=True)
    text = (ROOT / "specs" / "mnist-chainer.yaml").read_text()
    text = text.replace("\ncluster:\n", "\ncluster:\n  capacity: spot\n")
    changed = re.sub(r"(?m)^provider: local\b", f"provider: {provider}", text)
    pairs = zip(text.splitlines(), changed.splitlines(), strict=True)
    assert sum(a != b for a, b in pairs) == (provider != "local")
    path = folder / "mnist-chainer.yaml"
    path.write_text(changed)
    return str(path)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Shown]:
    """Give what shows the job on a provider: it runs once on each, whatever is asked of it."""
    need("azurite", *PROGRAMS)
    home = tmp_path_factory.mktemp("hands-on")

    @cache
    def one(provider: str) -> Shown:
        folder = home / provider
        folder.mkdir(exist_ok=True)
        if provider == "local":
            return on_this_machine(tmp_path_factory, folder)
        if provider in REHEARSED:
            done = runspec("rehearse", written(folder, provider), "--folder", str(folder / "kept"))
            return Shown(done.stdout, done.stderr, folder / "kept" / "outputs")
        # The environment of the main job is what the image of the hands-on brought.
        return step_for_step(folder, packages(tmp_path_factory))

    return one


def on_this_machine(factory: pytest.TempPathFactory, folder: Path) -> Shown:
    """Give what came of the main job, which is the same but for the machines of low priority."""
    job = apply_main_job(factory)
    runspec("fetch", "mnist-chainer", str(folder / "out"), RUNSPEC_HOME=str(job.home))
    return Shown(job.log, job.told, folder / "out")


def packages(factory: pytest.TempPathFactory) -> Path:
    """Return the commands of the environment that was built for the main job."""
    (found,) = (apply_main_job(factory).home / "local/envs").glob("*/bin")
    return found


def step_for_step(folder: Path, commands: Path) -> Shown:
    """Go through the hands-on: each of its steps is one command here."""
    machine = {"PATH": f"{commands}:{os.environ['PATH']}", **CACHES}
    with Blobs(folder / "blobs") as blobs:
        blobs.make_container(CONTAINER)
        accounts = {blobs.account: blobs.key}
        url = blobs.url.replace(blobs.account, "{account}")
        more = {"machine_env": machine, "accounts": accounts}
        with BatchAI(folder / "cloud", None, blob_url=url, **more) as cloud:
            env = {**cloud.env, "STORAGE_KEY": blobs.key, "RUNSPEC_HOME": str(folder / "home")}
            env["RUNSPEC_PROFILE"] = str(folder / "profile.yaml")
            (folder / "profile.yaml").write_text(profile(cloud, blobs))
            applied = runspec("apply", "--detach", written(folder, "azure-batch-ai"), **env)
            log, first = streamed(cloud, env)
            runspec("fetch", "mnist-chainer", str(folder / "out"), **env)
            # By its id, as this is another folder than that of the spec.
            runspec("destroy", *set(re.findall(r"mnist-chainer-\w{6}\b", applied.stderr)), **env)
            gone = runspec("destroy", "--site", **env)
            left = tuple(blob.name for blob in container(blobs).list_blobs())
            calls = tuple(cloud.control("GET", "calls"))
    told = applied.stderr + gone.stderr
    return Shown(log, told, folder / "out", cloud, first, calls, left)


def streamed(cloud: BatchAI, env: dict[str, str]) -> tuple[str, str]:
    """Follow the log; give it, and how the job was when the first line had come."""
    line, state = [sys.executable, "-m", "runspec_jobs", "logs", "--follow", "mnist-chainer"], ""
    with subprocess.Popen(line, env=os.environ | env, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        log = ""
        for text in reader.stdout:
            log += text
            state = state or cloud.control("GET", "jobs")[0]["state"]
    assert reader.returncode == 0, log
    return log, state


def profile(cloud: BatchAI, blobs: Blobs) -> str:
    """Give what an account has, and no spec says: the image of the hands-on among it."""
    return f"""\
providers:
  azure-batch-ai:
    arm_url: {cloud.url}
    subscription: {emulator.SUBSCRIPTION}
    location: eastus
    storage_account: {blobs.account}
    blob_url: {blobs.url}
    container: {CONTAINER}
    file_share: logs
    vm_size: STANDARD_NC6
    ssh_public_key: ssh-ed25519 AAAA
    secrets: {{storage-key: env:STORAGE_KEY}}
    images: {{"localhost/chainermn:7.8.1": "batchaitraining/chainermn:openMPI"}}
"""


def container(blobs: Blobs) -> ContainerClient:
    given: dict[str, Any] = {"account_name": blobs.account, "account_key": blobs.key}
    return ContainerClient(blobs.url, CONTAINER, credential=given, api_version="2021-12-02")


def of_matrix(provider: str) -> Any:
    """Give a provider that is tried by `tools/test --matrix` alone: a training of half a minute of CPU time."""
    return pytest.param(provider, marks=pytest.mark.matrix)


OF_MATRIX = [of_matrix(provider) for provider in REHEARSED]
OTHERS = ("azure-batch-ai", *OF_MATRIX)


@pytest.mark.parametrize("provider", ["local", *OTHERS])
def test_the_log_has_the_table_of_the_hands_on(
    shown: Callable[[str], Shown], provider: str
) -> None:
    found = shown(provider)

    assert "Num process (COMM_WORLD): 2" in found.log
    assert "Num Minibatch-size: 100" in found.log
    assert HEADER in [" ".join(line.split()) for line in found.lines()]
    assert [int(row[0]) for row in found.rows()] == list(range(1, 21))
    assert float(found.rows()[-1][4]) > 0.9, found.rows()[-1]


@pytest.mark.parametrize("provider", OTHERS)
def test_the_outputs_are_those_of_this_machine(
    shown: Callable[[str], Shown], provider: str
) -> None:
    """The network has the same layers, so its file has the same size."""
    here, there = files(shown("local").outputs), files(shown(provider).outputs)

    network = "node-0/model/model_epoch_20.npz"
    assert set(there) == set(here) == {"node-0/model/log.json", network}
    assert there[network] == here[network]


@pytest.mark.parametrize("provider", OF_MATRIX)
def test_a_rehearsal_takes_all_of_it_away(shown: Callable[[str], Shown], provider: str) -> None:
    assert "shared resource" in shown(provider).told


def files(folder: Path) -> dict[str, int]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.stat().st_size for path in found}


def test_the_calls_are_the_steps_of_the_hands_on(shown: Callable[[str], Shown]) -> None:
    """Quota, group, workspace, cluster, experiment, job; then its end, in the other direction."""
    found = shown("azure-batch-ai").calls

    asked = [call["operation"] for call in found]
    made = [name for name in asked if re.search(r"_Create|_Delete", name)]
    assert asked.index("Usages_List") < asked.index("Clusters_Create")
    assert made == [
        "ResourceGroups_CreateOrUpdate",
        "Workspaces_Create",
        "Clusters_Create",
        "Experiments_Create",
        "Jobs_Create",
        "Jobs_Delete",
        "Experiments_Delete",
        "Clusters_Delete",
        "Workspaces_Delete",
        "ResourceGroups_Delete",
    ]


def test_it_asks_for_two_nodes_of_low_priority_and_chainer(shown: Callable[[str], Shown]) -> None:
    bodies = {call["operation"]: call["body"] for call in shown("azure-batch-ai").calls}

    cluster, job = (bodies[f"{k}_Create"]["properties"] for k in ("Clusters", "Jobs"))
    assert (cluster["vmSize"], cluster["vmPriority"]) == ("STANDARD_NC6", "lowpriority")
    assert cluster["scaleSettings"]["autoScale"]["maximumNodeCount"] == job["nodeCount"] == 2
    assert job["chainerSettings"]["processCount"] == 2
    image = job["containerSettings"]["imageSourceRegistry"]["image"]
    assert image == "batchaitraining/chainermn:openMPI"


def test_the_log_is_streamed_while_the_job_runs(shown: Callable[[str], Shown]) -> None:
    assert shown("azure-batch-ai").first_line == "running"


def test_the_model_is_listed_and_got_by_signed_links(shown: Callable[[str], Shown]) -> None:
    found = shown("azure-batch-ai").calls

    listed = [c["query"] for c in found if c["operation"] == "Jobs_ListOutputFiles"]
    assert "MODEL" in [query["outputdirectoryid"] for query in listed]
    assert "GetFile" in [c["operation"] for c in found]


def test_nothing_is_left_of_it_at_the_service_or_in_the_store(
    shown: Callable[[str], Shown],
) -> None:
    found = shown("azure-batch-ai")

    assert found.cloud is not None
    world = found.cloud.world
    assert (world.groups, world.nodes(), found.left) == ({}, [], ())


# The script that the public job file starts has other words than ours, and a GPU for each process.
SCRIPT = """\
import os, runpy, sys
assert sys.argv[1] == "-g" and sys.argv[2] == "-o", sys.argv
sys.path.insert(0, {code!r})
data = os.environ["AZ_BATCHAI_JOB_MOUNT_ROOT"] + "/data/digits"
sys.argv[1:] = ["--epoch", "8", "--unit", "60", "--data", data, "--out", sys.argv[3]]
runpy.run_path({code!r} + "/train_mnist.py", run_name="__main__")
"""
# Ten patterns of 28 by 28 pixels, each made brighter at random.
DIGITS = """\
import pathlib, random, sys
sys.path.insert(0, {code!r})
import prepare_data
dice = random.Random(1)
patterns = [dice.choices(range(128), k=28 * 28) for _ in range(10)]
def made(count):
    kinds = dice.choices(range(10), k=count)
    lights = [dice.randrange(128) for _ in kinds]
    pixels = b"".join(bytes(p + light for p in patterns[k]) for k, light in zip(kinds, lights))
    return prepare_data.Images(pixels, bytes(kinds))
prepare_data.save_all(pathlib.Path(sys.argv[1]), {{"train": made(600), "test": made(100)}})
"""
CLUSTER = {
    "vmSize": "STANDARD_NC6",
    "vmPriority": "lowpriority",
    "scaleSettings": {"manual": {"targetNodeCount": 2}},
    "userAccountSettings": {"adminUserName": "me", "adminUserSshPublicKey": "ssh-rsa AAAA"},
}


def test_the_public_job_file_trains_the_network(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken in as it is; its shares have the script and the data before, as in the hands-on."""
    code = str(ROOT / "specs/mnist")
    share = tmp_path / "cloud/storage/acct"
    (share / "scripts/chainer").mkdir(parents=True)
    (share / "scripts/chainer/train_mnist.py").write_text(SCRIPT.format(code=code))
    made = [sys.executable, "-c", DIGITS.format(code=code), str(share / "data/digits")]
    (share / "data/digits").mkdir(parents=True)
    subprocess.run(made, check=True)
    monkeypatch.chdir(tmp_path)
    Path("job.json").write_text(json.dumps(HANDS_ON))
    Path("cluster.json").write_text(json.dumps({"properties": CLUSTER}))
    machine = {"PATH": f"{packages(tmp_path_factory)}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}

    with BatchAI(tmp_path / "cloud", accounts={"acct": KEY}, machine_env=machine) as cloud:
        env = {**cloud.env, "AZURE_BATCHAI_STORAGE_KEY": KEY}
        runspec("import", "job.json", "--cluster", "cluster.json", "--to", ".", **env)
        complete(Path("runspec-profile.yaml"), cloud)
        runspec("trust", **env)
        log = runspec("apply", "job.yaml", **env).stdout
        runspec("fetch", "job", "out", **env)
        runspec("destroy", "job", **env)
        runspec("destroy", "--shared", **env)

    found = Shown(log, "", tmp_path / "out")
    assert "Num process (COMM_WORLD): 2" in log
    assert [int(row[0]) for row in found.rows()] == list(range(1, 9))
    assert float(found.rows()[-1][4]) > 0.9 > float(found.rows()[0][3]), found.rows()
    assert [path.name for path in (tmp_path / "out").rglob("*.npz")] == ["model_epoch_8.npz"]
    assert (cloud.world.groups, cloud.world.nodes()) == ({}, [])


def complete(profile: Path, cloud: BatchAI) -> None:
    """Put in what the files do not have: the subscription, the place and where the service answers."""
    own = {"arm_url": cloud.url, "location": "eastus", "subscription": emulator.SUBSCRIPTION}
    lines = "".join(f"    {key}: {value}\n" for key, value in own.items())
    head = "  azure-batch-ai:\n"
    profile.write_text(profile.read_text().replace(head, head + lines))
