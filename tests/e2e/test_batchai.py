"""The hands-on of Batch AI, from its own job.json: taken in, applied, followed, fetched, deleted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.batch_ai import BatchAI
from runspec_jobs.cli.app import run
from tests.e2e.test_launch import mpi as mpi  # a fixture
from tests.support.azure.batch_ai_recipes import HANDS_ON, KEY

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)]

Capture = pytest.CaptureFixture[str]
# The table that Chainer's example prints, by the first process of the world alone.
TRAIN = """
import os, sys
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
out = sys.argv[sys.argv.index("-o") + 1]
os.makedirs(out, exist_ok=True)
open(os.path.join(out, "rank-" + rank), "w").write(rank)
if rank == "0":
    print("epoch       main/loss   main/accuracy  elapsed_time")
    for epoch in range(1, 4):
        print("%-10d  0.2%d        0.9%d           %d.5" % (epoch, 9 - epoch, epoch, epoch))
    open(os.path.join(out, "snapshot"), "wb").write(bytes(range(256)))
"""
CLUSTER = {
    "properties": {
        "vmSize": "STANDARD_NC6",
        "vmPriority": "lowpriority",
        "scaleSettings": {"manual": {"targetNodeCount": 2}},
        "userAccountSettings": {"adminUserName": "me", "adminUserSshPublicKey": "ssh-rsa AAAA"},
    }
}


@pytest.fixture
def stand(
    mpi: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[BatchAI]:
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr("runspec_batchai.client.BatchAiClient.poll_s", 0.2)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with BatchAI(tmp_path / "cloud", accounts={"acct": KEY}, machine_env=root) as found:
        for name, value in found.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AZURE_BATCHAI_STORAGE_KEY", KEY)
        monkeypatch.chdir(tmp_path)
        yield found


def prepared(folder: Path, stand: BatchAI) -> None:
    """Lay out the files of the hands-on, and have them taken in."""
    scripts = folder / "cloud/storage/acct/scripts/chainer"
    scripts.mkdir(parents=True)
    (scripts / "train_mnist.py").write_text(TRAIN)
    (folder / "job.json").write_text(json.dumps(HANDS_ON))
    (folder / "cluster.json").write_text(json.dumps(CLUSTER))
    assert run(["import", "job.json", "--cluster", "cluster.json", "--to", "."]) == 0
    profile = folder / "runspec-profile.yaml"
    own = f"    arm_url: {stand.url}\n    location: eastus\n"
    own += "    subscription: 00000000-0000-0000-0000-000000000000\n"
    profile.write_text(profile.read_text().replace("    vm_size", f"{own}    vm_size"))
    assert run(["trust"]) == 0


@pytest.mark.essential
def test_the_hands_on_runs_from_its_own_file_and_leaves_nothing(
    stand: BatchAI, tmp_path: Path, capsys: Capture
) -> None:
    prepared(tmp_path, stand)
    capsys.readouterr()

    code = run(["apply", "job.yaml"])

    told = capsys.readouterr()
    assert code == 0, told.err
    assert re.findall(r"\b([123]) +0\.\d+ ", told.out) == ["1", "2", "3"], told.out
    assert run(["fetch", "job", "out"]) == 0
    assert sorted(p.name for p in (tmp_path / "out/node-0/model").iterdir()) == [
        "rank-0",
        "rank-1",
        "snapshot",
    ]
    assert (tmp_path / "out/node-0/model/snapshot").read_bytes() == bytes(range(256))
    assert run(["destroy", "job"]) == 0 and run(["destroy", "--site"]) == 0
    assert left(stand) == []


def left(stand: BatchAI) -> list[Any]:
    """Give what was made and not deleted, by the calls on record."""
    calls = stand.control("GET", "calls")
    made = [c["operation"].partition("_")[0] for c in calls if "_Create" in c["operation"]]
    gone = [c["operation"].partition("_")[0] for c in calls if c["operation"].endswith("_Delete")]
    return sorted(set(made) - set(gone)) + list(stand.control("GET", "jobs"))


def test_no_key_is_in_anything_that_is_kept(
    stand: BatchAI, tmp_path: Path, capsys: Capture
) -> None:
    prepared(tmp_path, stand)
    assert run(["apply", "job.yaml"]) == 0

    kept = [p for p in Path(os.environ["RUNSPEC_HOME"]).rglob("*") if p.is_file()]
    kept += [tmp_path / "job.yaml", tmp_path / "runspec-profile.yaml"]
    assert [p.name for p in kept if KEY.encode() in p.read_bytes()] == []
    told = capsys.readouterr()
    assert KEY not in told.out + told.err


def test_the_same_plan_is_rehearsed_with_folders_and_nodes_of_low_priority(
    stand: BatchAI, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAIN)
    (tmp_path / "job.yaml").write_text(
        "apiVersion: runspec/v1\nname: job\nprovider: azure-batch-ai\n"
        "cluster: {nodes: 2, capacity: spot}\n"
        "mounts: [{name: code, source: ./code, target: /job/code}]\n"
        "outputs: [{name: model, path: /job/model}]\n"
        'launch: mpi\ncommand: [python, "${mounts.code}/train.py", -o, "${outputs.model}"]\n'
        "env: {OMPI_ALLOW_RUN_AS_ROOT: 1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: 1}\n"
        "providers: {azure-batch-ai: {toolkit: chainer}}\n"
    )

    code = run(["rehearse", "job.yaml", "--folder", "kept"])

    told = capsys.readouterr()
    assert code == 0, told.err + told.out
    assert sorted(p.name for p in (tmp_path / "kept/outputs/node-0/model").iterdir()) == [
        "rank-0",
        "rank-1",
        "snapshot",
    ]


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_script_of_one_line_is_run_by_every_process_of_mpi(
    attempts: int, stand: BatchAI, tmp_path: Path, capsys: Capture
) -> None:
    """Its pipe and its redirection are its own, and mpirun has but a program; also when it is tried again."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "word").write_text("word\n")
    line = (
        'tr a-z A-Z < "${mounts.code}/word" | sed "s/^/$RUNSPEC_RANK of $OMPI_COMM_WORLD_SIZE: /" '
        f'> "${{outputs.found}}/$RUNSPEC_RANK"; test "$RUNSPEC_ATTEMPT" = {attempts}'
    )
    found = {
        "apiVersion": "runspec/v1",
        "name": "job",
        "provider": "azure-batch-ai",
        "cluster": {"nodes": 2},
        "mounts": [{"name": "code", "source": "./code", "target": "/job/code"}],
        "outputs": [{"name": "found", "path": "/job/found"}],
        "launch": "mpi",
        "retry": {"attempts": attempts},
        "run": line,
    }
    (tmp_path / "job.yaml").write_text(json.dumps(found))

    code = run(["rehearse", "job.yaml", "--folder", "kept"])

    told = capsys.readouterr()
    assert code == 0, told.err + told.out
    files = (tmp_path / "kept/outputs/node-0/found").iterdir()
    assert {p.name: p.read_text() for p in files} == {
        "0": "0 of 2: WORD\n",
        "1": "1 of 2: WORD\n",
    }
