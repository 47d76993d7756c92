"""Jobs that end in each way, for real: what `status --json` says is recorded, and docs/exit-codes.md is made of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_emulators.aws.region import Objects, Region
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.batch_ai import BatchAI
from runspec_jobs.cli.app import run
from tests.e2e.test_elastic_torch import torch as torch  # a fixture
from tests.e2e.test_launch import mpi as mpi  # a fixture
from tests.support import ends
from tests.support.aws import emulated_account as emulated_region
from tests.support.azure import emulated_account, emulated_batch_ai
from tests.support.azure.emulated_account import blobs as blobs  # a fixture
from tests.support.full_store import FullStore
from tests.support.profiles import own_profile
from tests.support.requirements import need_root
from tests.support.slurm.project import LIMIT_S, Project, cluster as cluster, project as project

OVER_S = 8 * LIMIT_S  # the service itself ends an attempt 140 s after `timeout`
WHOLE = (*ends.OF_PROGRAM, "timeout")
ON_SLURM = (*WHOLE, "hang", "agent", "batch")
FEW = ("exit-143", "signal-KILL", "agent")
ON_CLOUD = (*WHOLE, "service", "agent")
# What a program may end with that also means something to a service that reclaims machines.
ON_SPOT = ("exit-75", "exit-137", "exit-143", "part", "agent")
SPOT = {"capacity": "spot"}
TWO_ON_SPOT = {"nodes": 2, **SPOT}
FULL = ("full-0", "full-3")
OF_NODES = ("exit-0", "exit-3", "exit-75", "exit-143", "signal-KILL", "timeout")
OF_GANG = (*OF_NODES, "agent", "cancel")
OF_SPOT_GANG = ("exit-3", "exit-75", "exit-143", "timeout", "agent", "cancel")
OF_MPI = (*OF_GANG, "service")
OF_TORCH = ("exit-0", "exit-3", "exit-75", "signal-KILL")
OF_TORCH_GANG = ("exit-3", "signal-KILL", "timeout", "agent", "cancel")
OF_ELASTIC = ("exit-0", "exit-3", "exit-75", "signal-KILL", "timeout", "node", "cancel")
ELASTIC = {"cluster": {"nodes": {"min": 1, "max": 2}}, "launch": "torchrun"}
# Batch AI starts a job of which a node was lost anew, and counts no attempts.
FIRST = (
    'f="$AZ_BATCHAI_STDOUTERR_DIR/first"; [ -e "$f" ] || { touch "$f"; echo begun; sleep 600; }\n'
)
LOW = {"cluster": SPOT, "run": FIRST + ends.SCRIPT}
# The fixtures of the jobs of each provider.
JOBS = {"local": "local", "slurm": "project", "aws-batch": "on_aws", "azure-batch": "on_azure"}
# The first attempt waits for what ends it.
WAITS = '[ "$RUNSPEC_ATTEMPT" -gt 1 ] || { echo begun; sleep 600; }\n'


def ended(project: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """Apply a spec; give the status of its run at its end, of which the bill has the outcomes that the table says."""
    start(project, spec)
    found: dict[str, Any] = project.until_over("job", OVER_S)
    return found


def start(project: Any, spec: dict[str, Any]) -> None:
    (project.folder / "job.yaml").write_text(json.dumps(spec))
    code, _, err = project.said("apply", "job.yaml", "--detach")
    assert code == 0, err


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
    own_profile().write_text("prices: {local: 36}\nproviders: {local: {grace: 10s}}\n")
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
    gangs("local-nodes", "local", ("cancel",), local)


def waiting(project: Any, provider: str, **more: Any) -> None:
    """Start a job whose first attempt waits."""
    waits = {"run": WAITS + ends.SCRIPT, "timeout": "10m", **more}
    spec = ends.spec(provider, ["exit-0"], **waits)
    (project.folder / "job.yaml").write_text(json.dumps(spec))
    assert project.said("apply", "job.yaml", "--detach")[0] == 0
    project.until_said("begun")


@pytest.mark.process
def test_a_job_on_this_machine_is_cancelled(local: Local) -> None:
    waiting(local, "local")

    assert local.said("cancel", "job")[0] == 0

    ends.check("local", {"cancel": ends.rows(local.until_over(), ["cancel"])["cancel"]})


def kill_supervisor() -> None:
    (started,) = Path(os.environ["RUNSPEC_HOME"]).glob("local/runs/*/started.json")
    os.kill(json.loads(started.read_text())["pid"], signal.SIGKILL)


@pytest.mark.process
def test_the_supervisor_of_a_job_is_killed(local: Local) -> None:
    waiting(local, "local")

    kill_supervisor()

    ends.check("local", {"supervisor": ends.rows(local.until_over(), ["s"])["s"]})


@pytest.mark.process
@pytest.mark.matrix
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_two_nodes_of_mpi_on_this_machine_end_in_each_way(
    mpi: Path, local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent of such a job is the launcher of a node."""
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")
    kinds = (*OF_NODES, "agent")
    spec = ends.spec("local", kinds, nodes=2, launch="mpi")
    spec["env"] |= {"BELOW": "1", "AGENT": "pyz launc[h]"}

    ends.check("local-mpi", ends.rows(ended(local, spec), kinds))
    gangs("local-mpi", "local", ("cancel",), local, launch="mpi")


@pytest.mark.process
@pytest.mark.matrix
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_the_supervisor_of_a_job_of_mpi_is_killed(
    mpi: Path, local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")
    waiting(local, "local", cluster={"nodes": 2}, launch="mpi")

    kill_supervisor()

    ends.check("local-mpi", {"supervisor": ends.rows(local.until_over(), ["s"])["s"]})


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_two_nodes_of_mpi_on_slurm_end_in_each_way(
    mpi: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{mpi / 'bin'}:{os.environ['PATH']}"
    kinds = (*OF_NODES, "agent")
    spec = ends.spec("slurm", kinds, nodes=2, launch="mpi")
    spec["env"] |= {"PATH": path, "BELOW": "1"}
    monkeypatch.setenv("PATH", path)

    ends.check("slurm-mpi", ends.rows(ended(project, spec), kinds))
    gangs("slurm-mpi", "slurm", ("cancel",), project, launch="mpi")


def of_torchrun(provider: str, jobs: Any) -> None:
    """End one worker of torchrun on two nodes. torch takes seconds to start, so these jobs have more time."""
    for kinds, more in ((OF_TORCH, {"timeout": "10m", "max_parallel": 2}), (("timeout",), {})):
        spec = ends.spec(provider, kinds, nodes=2, launch="torchrun", **more)
        spec["env"] |= {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}

        ends.check(f"{provider}-torchrun", ends.rows(ended(jobs, spec), kinds))
    gangs(f"{provider}-torchrun", provider, ("cancel",), jobs, launch="torchrun")


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_two_nodes_of_torchrun_on_this_machine_end_in_each_way(torch: Path, local: Local) -> None:
    of_torchrun("local", local)


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_two_nodes_of_torchrun_on_slurm_end_in_each_way(torch: Path, project: Project) -> None:
    of_torchrun("slurm", project)


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
    gangs("slurm-nodes", "slurm", ("cancel",), project)


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


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a file system at *folder* that holds *size*."""
    need_root()
    folder.mkdir(parents=True, exist_ok=True)
    line = ["mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(folder)]
    subprocess.run(line, check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def without_room(provider: str, jobs: Any, make_room: Callable[[], Any], **kinds: Any) -> None:
    """End jobs whose store is full when they save, one after the other; *kinds*: what else they have, by table."""
    for name, more in kinds.items():
        for end in FULL:
            make_room()
            outputs = [{"name": "out", "path": "/job/out"}]
            spec = ends.spec(provider, [end], outputs=outputs, timeout="10m", **more)
            spec["env"]["FILL"] = getattr(jobs, "fill", ":")

            table = name.replace("_", "-")
            ends.check(table, ends.rows(ended(jobs, spec), [end]))
            make_room()
            jobs.said("destroy", "job", "--yes")


@pytest.mark.process
@pytest.mark.matrix
def test_a_job_on_this_machine_has_no_room_for_its_outputs(local: Local) -> None:
    with small_disk(Path(os.environ["RUNSPEC_HOME"], "local"), "5m"):
        without_room("local", local, lambda: None, local={}, local_nodes={"nodes": 2})


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_slurm_has_no_room_in_its_workspace(project: Project) -> None:
    """The program fills it to the last byte."""
    zero = project.workspace / "zero"
    project.fill = f"cat /dev/zero >{zero} 2>&1 || :"  # type: ignore[attr-defined] # of this test alone
    with small_disk(project.workspace, "2m"):
        without_room(
            "slurm",
            project,
            lambda: zero.unlink(missing_ok=True),
            slurm={},
            slurm_nodes={"nodes": 2},
        )


def on_clouds(provider: str) -> dict[str, Any]:
    """Return the tables of a cloud that have rows of a full store, with what their jobs have."""
    name = provider.replace("-", "_")
    signed = {"providers": {provider: {"files": "signed"}}}
    return {name: {}, f"{name}_nodes": {"nodes": 2}, f"{name}_signed": signed}


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_aws_batch_has_no_room_in_s3(
    objects: Objects,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A store that speaks S3 has a limit, although AWS's own has none."""
    with FullStore(objects.url, empty=False) as store:
        proxied = SimpleNamespace(url=store.address)
        for _ in emulated_region.prepared(proxied, tmp_path, monkeypatch):  # type: ignore[arg-type] # its URL is asked for
            jobs = Local(tmp_path, capsys)
            without_room("aws-batch", jobs, store.make_room, **on_clouds("aws-batch"))


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_azure_batch_has_no_room_in_its_blobs(
    blobs: Blobs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with FullStore(blobs.url, empty=True) as store:
        proxied = SimpleNamespace(url=store.address, account=blobs.account, key=blobs.key)
        for _ in emulated_account.prepared(proxied, tmp_path, monkeypatch):  # type: ignore[arg-type] # these are asked for
            jobs = Local(tmp_path, capsys)
            without_room("azure-batch", jobs, store.make_room, **on_clouds("azure-batch"))


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize(
    ("provider", "machines"),
    [("aws-batch", "region/containers"), ("azure-batch", "account/nodes")],
)
def test_a_job_has_no_room_on_the_disk_of_its_machine(
    provider: str, machines: str, request: pytest.FixtureRequest
) -> None:
    jobs = request.getfixturevalue(JOBS[provider])
    outputs = [{"name": "out", "path": "/job/out"}]

    with small_disk(jobs.folder / machines, "24m"):
        for end in ("disk-0", "disk-3"):
            status = ended(jobs, ends.spec(provider, [end], outputs=outputs, timeout="10m"))
            ends.check(provider, ends.rows(status, [end]))
            jobs.said("destroy", "job", "--yes")


def on_cloud(provider: str, kinds: tuple[str, ...], jobs: Local, **more: Any) -> None:
    """End the tasks of a sweep on a rehearsed service."""
    status = ended(jobs, ends.spec(provider, kinds, max_parallel=8, **more))

    name = f"{provider}-spot" if "cluster" in more else provider
    ends.check(name, ends.rows(status, kinds))


def event(provider: str, end: str, jobs: Local, happens: Callable[[], Any], **more: Any) -> None:
    """Let something happen to a job whose first attempt waits."""
    waiting(jobs, provider, **more)

    happens()

    name = f"{provider}-spot" if "cluster" in more and provider != "azure-batch-ai" else provider
    ends.check(name, {end: ends.rows(jobs.until_over(limit_s=2 * LIMIT_S), [end])[end]})


@pytest.fixture
def on_aws(region: Region, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Local:
    return Local(tmp_path, capsys)


@pytest.mark.slow
def test_a_job_on_aws_batch_ends_in_a_few_ways(on_aws: Local) -> None:
    on_cloud("aws-batch", FEW, on_aws)


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_a_job_on_aws_batch_ends_in_each_way(on_aws: Local) -> None:
    on_cloud("aws-batch", ON_CLOUD, on_aws)


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_spot_machines_of_aws_batch_ends_in_each_way(on_aws: Local) -> None:
    on_cloud("aws-batch", ON_SPOT, on_aws, cluster=SPOT, timeout="10m")


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize("end", ["cancel", "memory", "lost"])
def test_something_happens_to_a_job_on_aws_batch(on_aws: Local, region: Region, end: str) -> None:
    def job() -> str:
        (found,) = [one for one in region.control("GET", "jobs") if one["status"] == "RUNNING"]
        return str(found["id"])

    acts: dict[str, Callable[[], Any]] = {
        "cancel": lambda: on_aws.said("cancel", "job"),
        "memory": lambda: region.control("POST", "out-of-memory", {"jobId": job()}),
        "lost": lambda: region.control("POST", "reclaim", {"jobId": job(), "notice_s": 0}),
    }
    event("aws-batch", end, on_aws, acts[end])


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize(("end", "notice_s"), [("lost", 0), ("notice", 60)])
def test_a_spot_machine_of_aws_batch_is_reclaimed(
    on_aws: Local, region: Region, end: str, notice_s: int
) -> None:
    def reclaim() -> None:
        (job,) = [one for one in region.control("GET", "jobs") if one["status"] == "RUNNING"]
        region.control("POST", "reclaim", {"jobId": job["id"], "notice_s": notice_s})

    event("aws-batch", end, on_aws, reclaim, cluster=SPOT)


def gangs(name: str, provider: str, kinds: tuple[str, ...], jobs: Any, **more: Any) -> None:
    """End jobs of two nodes, one in each way, at the same time.

    A service starts the nodes of such a job together; a sweep would be an array of single nodes.
    """
    started = {}
    for end in sorted(kinds, key=lambda end: end != "cancel"):  # as long as there are machines
        limit = {} if end in ("timeout", "service") else {"timeout": "10m"}
        started[end] = f"job-{end.lower()}"
        spec = ends.spec(provider, [end], nodes=2, name=started[end], **{**limit, **more})
        own = {"PATH": os.environ["PATH"], "BELOW": "1", "MARK": str(jobs.folder / "mark")}
        spec["env"] = {**(own if "launch" in more else {}), **spec["env"]}
        start(jobs, spec)
        if end == "cancel":
            jobs.until_said("begun", started[end])
            assert jobs.said("cancel", started[end])[0] == 0

    rows: dict[str, Any] = {}
    for end, job in started.items():
        rows |= ends.rows(jobs.until_over(job, OVER_S), [end])
    ends.check(name, rows)


@pytest.mark.slow
@pytest.mark.matrix
def test_two_nodes_on_aws_batch_end_in_each_way(on_aws: Local) -> None:
    gangs("aws-batch-nodes", "aws-batch", OF_GANG, on_aws)


@pytest.mark.slow
@pytest.mark.matrix
def test_two_nodes_on_azure_batch_end_in_each_way(on_azure: Local) -> None:
    gangs("azure-batch-nodes", "azure-batch", OF_GANG, on_azure)


@pytest.mark.slow
@pytest.mark.matrix
def test_two_nodes_on_spot_machines_of_aws_batch_end_in_each_way(on_aws: Local) -> None:
    gangs("aws-batch-spot-nodes", "aws-batch", OF_SPOT_GANG, on_aws, cluster=TWO_ON_SPOT)


@pytest.mark.slow
@pytest.mark.matrix
def test_two_nodes_on_spot_machines_of_azure_batch_end_in_each_way(on_azure: Local) -> None:
    gangs("azure-batch-spot-nodes", "azure-batch", OF_SPOT_GANG, on_azure, cluster=TWO_ON_SPOT)


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_two_nodes_of_mpi_on_aws_batch_end_in_each_way(
    mpi: Path, on_aws: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")

    gangs("aws-batch-mpi", "aws-batch", OF_MPI, on_aws, launch="mpi")


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_two_nodes_of_mpi_on_azure_batch_end_in_each_way(
    mpi: Path, on_azure: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")

    gangs("azure-batch-mpi", "azure-batch", OF_MPI, on_azure, launch="mpi")


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_two_nodes_of_torchrun_on_aws_batch_end_in_a_few_ways(torch: Path, on_aws: Local) -> None:
    gangs("aws-batch-torchrun", "aws-batch", OF_TORCH_GANG, on_aws, launch="torchrun")


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_two_nodes_of_torchrun_on_azure_batch_end_in_a_few_ways(
    torch: Path, on_azure: Local, account: AzureBatch
) -> None:
    more = {"cluster": TWO_ON_SPOT, "launch": "torchrun"}
    waiting(on_azure, "azure-batch", **more, env={"LAST": "1", "PATH": os.environ["PATH"]})
    preempt(account, notice_s=0, index=1)
    ends.check("azure-batch-torchrun", {"lost": ends.rows(on_azure.until_over(), ["lost"])["lost"]})

    gangs("azure-batch-torchrun", "azure-batch", OF_TORCH_GANG, on_azure, launch="torchrun")


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(900)
@pytest.mark.parametrize("provider", ["local", "slurm", "aws-batch", "azure-batch"])
def test_two_elastic_nodes_of_torchrun_end_in_each_way(
    torch: Path, provider: str, request: pytest.FixtureRequest
) -> None:
    """A killed agent is a lost node, which comes back."""
    jobs = request.getfixturevalue(JOBS[provider])

    gangs(f"{provider}-elastic", provider, OF_ELASTIC, jobs, **ELASTIC)


@pytest.fixture
def account(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    yield from emulated_account.prepared(blobs, tmp_path, monkeypatch)


@pytest.fixture
def on_azure(account: AzureBatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Local:
    return Local(tmp_path, capsys)


@pytest.mark.slow
def test_a_job_on_azure_batch_ends_in_a_few_ways(on_azure: Local) -> None:
    on_cloud("azure-batch", FEW, on_azure)


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_a_job_on_azure_batch_ends_in_each_way(on_azure: Local) -> None:
    on_cloud("azure-batch", ON_CLOUD, on_azure)


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_spot_machines_of_azure_batch_ends_in_each_way(on_azure: Local) -> None:
    on_cloud("azure-batch", ON_SPOT, on_azure, cluster=SPOT, timeout="10m")


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_azure_batch_is_cancelled(on_azure: Local) -> None:
    event("azure-batch", "cancel", on_azure, lambda: on_azure.said("cancel", "job"))


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize(("end", "notice_s"), [("lost", 0), ("notice", 5), ("withdrawn", 600)])
def test_a_spot_machine_of_azure_batch_is_reclaimed(
    on_azure: Local, account: AzureBatch, end: str, notice_s: int
) -> None:
    """Or stays after all, although there was a notice: that attempt is lost, and counts as a failure."""

    def happens() -> None:
        where = preempt(account, notice_s=notice_s)
        if end == "withdrawn":
            on_azure.until_said("waiting until the machine is reclaimed")
            account.control("POST", "withdraw", where)

    event("azure-batch", end, on_azure, happens, cluster=SPOT)


def preempt(account: AzureBatch, **how: Any) -> dict[str, str]:
    """Take a machine from the only task; return where that is."""
    (task,) = account.control("GET", "tasks")
    where = {"jobId": task["jobId"], "taskId": task["id"]}
    account.control("POST", "preempt", {**where, **how})
    return where


@pytest.fixture
def batch_ai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchAI]:
    monkeypatch.setattr("runspec_batchai.client.BatchAiClient.poll_s", 0.2)
    with emulated_batch_ai.subscription(tmp_path, monkeypatch) as found:
        yield found


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_batch_ai_ends_in_each_way(
    batch_ai: BatchAI, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its `timeout` is that of all attempts together, and no agent is there to be killed."""
    on_cloud("azure-batch-ai", WHOLE, Local(tmp_path, capsys))


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize("end", ["cancel", "lost"])
def test_something_happens_to_a_job_on_batch_ai(
    batch_ai: BatchAI, tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    jobs = Local(tmp_path, capsys)

    def happens() -> None:
        if end == "cancel":
            jobs.said("cancel", "job")
        else:
            (job,) = batch_ai.control("GET", "jobs")
            batch_ai.control("POST", "preempt", {"job": job["name"]})

    event("azure-batch-ai", end, jobs, happens, **(LOW if end == "lost" else {}))


@pytest.mark.slow
@pytest.mark.matrix
def test_a_job_on_batch_ai_has_no_room_in_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No agent saves: the program itself writes to the share of outputs, and sees that there is no room."""
    monkeypatch.setattr("runspec_batchai.client.BatchAiClient.poll_s", 0.2)
    settings: dict[str, Any] = {
        "shared": {"kept": {"share": "kept"}},
        "results": {"out": {"path": "$AZ_BATCHAI_JOB_MOUNT_ROOT/kept/out"}},
    }
    with (
        emulated_batch_ai.subscription(tmp_path, monkeypatch, **settings),
        small_disk(tmp_path / "cloud/storage/acct/kept", "2m"),
    ):
        without_room("azure-batch-ai", Local(tmp_path, capsys), lambda: None, azure_batch_ai={})
