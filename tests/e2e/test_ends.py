"""Jobs that end in each way, for real: what `status --json` says is recorded, and docs/exit-codes.md is made of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.aws.region import Region
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.cli.app import run
from tests.support import ends
from tests.support.azure import emulated_account
from tests.support.azure.emulated_account import blobs as blobs  # a fixture
from tests.support.profiles import own_profile
from tests.support.slurm.project import LIMIT_S, Project, cluster as cluster, project as project

WHOLE = (*ends.OF_PROGRAM, "timeout")
ON_SLURM = (*WHOLE, "agent", "batch")
FEW = ("exit-143", "signal-KILL", "agent")
OF_NODES = ("exit-0", "exit-3", "exit-75", "exit-143", "signal-KILL", "timeout")
# The first attempt waits for what ends it.
WAITS = '[ "$RUNSPEC_ATTEMPT" -gt 1 ] || { echo begun; sleep 600; }\n'


def ended(project: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """Apply a spec; give the status of its run at its end, of which the bill has the outcomes that the table says."""
    (project.folder / "job.yaml").write_text(json.dumps(spec))
    code, _, err = project.said("apply", "job.yaml", "--detach")
    assert code == 0, err
    found: dict[str, Any] = project.until_over("job", 2 * LIMIT_S)
    return found


class Local(Project):
    """A project whose runs are on this machine."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def _all_states(self) -> str:
        return str(self.told("list"))


@pytest.fixture
def local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Local]:
    own_profile().write_text("prices: {local: 36}\nproviders: {local: {grace: 2s}}\n")
    monkeypatch.chdir(tmp_path)
    yield Local(tmp_path, capsys)
    run(["cancel", "job"])


@pytest.mark.process
def test_a_job_on_this_machine_ends_in_a_few_ways(local: Local) -> None:
    status = ended(local, ends.spec("local", FEW[:2]))

    ends.check("local", ends.rows(status, FEW[:2]))


@pytest.mark.process
@pytest.mark.matrix
def test_a_job_on_this_machine_ends_in_each_way(local: Local) -> None:
    status = ended(local, ends.spec("local", WHOLE, max_parallel=8))

    found = ends.rows(status, WHOLE)
    ends.check("local", found)
    billed = {part["outcome"] for part in status["cost"]["parts"]}
    assert billed == {how for row in found.values() for _, how in row[0]["attempts"]}


@pytest.mark.process
@pytest.mark.matrix
def test_two_nodes_on_this_machine_end_in_each_way(local: Local) -> None:
    status = ended(local, ends.spec("local", OF_NODES, nodes=2))

    ends.check("local-nodes", ends.rows(status, OF_NODES))


def waiting(project: Any, provider: str) -> None:
    """Start a job whose first attempt waits."""
    spec = {**ends.spec(provider, ["exit-0"]), "run": WAITS + ends.SCRIPT, "timeout": "10m"}
    (project.folder / "job.yaml").write_text(json.dumps(spec))
    assert project.said("apply", "job.yaml", "--detach")[0] == 0
    project.until_said("begun")


@pytest.mark.process
def test_a_job_on_this_machine_is_cancelled(local: Local) -> None:
    waiting(local, "local")

    assert local.said("cancel", "job")[0] == 0

    ends.check("local", {"cancel": ends.rows(local.until_over(), ["cancel"])["cancel"]})


@pytest.mark.process
def test_the_supervisor_of_a_job_is_killed(local: Local) -> None:
    waiting(local, "local")
    (started,) = Path(os.environ["RUNSPEC_HOME"]).glob("local/runs/*/started.json")

    os.kill(json.loads(started.read_text())["pid"], signal.SIGKILL)

    ends.check("local", {"supervisor": ends.rows(local.until_over(), ["s"])["s"]})


@pytest.mark.slow
@pytest.mark.essential
def test_a_job_on_slurm_ends_in_a_few_ways(project: Project) -> None:
    ends.check("slurm", ends.rows(ended(project, ends.spec("slurm", FEW)), FEW))


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_slurm_ends_in_each_way(project: Project) -> None:
    ends.check("slurm", ends.rows(ended(project, ends.spec("slurm", ON_SLURM)), ON_SLURM))


@pytest.mark.slow
@pytest.mark.matrix
def test_two_nodes_on_slurm_end_in_each_way(project: Project) -> None:
    kinds = (*OF_NODES, "agent")
    status = ended(project, ends.spec("slurm", kinds, nodes=2))

    ends.check("slurm-nodes", ends.rows(status, kinds))


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_slurm_is_cancelled(project: Project) -> None:
    waiting(project, "slurm")

    assert project.said("cancel", "job")[0] == 0

    ends.check("slurm", {"cancel": ends.rows(project.until_over(), ["cancel"])["cancel"]})


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_slurm_loses_its_machine(project: Project) -> None:
    waiting(project, "slurm")
    (lost,) = project.jobs("%N", "--states=RUNNING")

    project.cluster.lose(lost)
    project.cluster.set_node(lost, "DOWN", "its power is gone")
    project.until(lambda: project.status()["state"] == "waiting")
    project.cluster.mend(cancel=False)

    ends.check("slurm", {"lost": ends.rows(project.until_over(), ["lost"])["lost"]})


def on_cloud(provider: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """End the tasks of a sweep on a rehearsed service; its `timeout` has tests of its own."""
    kinds = (*ends.OF_PROGRAM, "agent")
    spec = ends.spec(provider, kinds, max_parallel=6, timeout="10m")

    status = ended(Local(folder, capsys), spec)

    ends.check(provider, ends.rows(status, kinds))


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_aws_batch_ends_in_each_way(
    region: Region, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_cloud("aws-batch", tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_azure_batch_ends_in_each_way(
    blobs: Blobs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    account: Iterator[AzureBatch] = emulated_account.prepared(blobs, tmp_path, monkeypatch)
    with contextlib.contextmanager(lambda: account)():
        on_cloud("azure-batch", tmp_path, capsys)
