"""`signal` reaches each process of a program once, some time before its time limit, wherever it runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from tests.e2e.test_launch import mpi as mpi  # a fixture
from tests.e2e.test_setup import torchrun as torchrun  # a fixture
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
# Each process waits for the signal, and a moment longer for a second one; the shell that runs it handles none. The
# first one then waits for the file that LAST names, which another writes when it is done.
PROGRAM = """\
import os, signal, sys, time
count = []
signal.signal(signal.SIGUSR1, lambda *_: count.append(1))
rank = next((os.environ[k] for k in ("OMPI_COMM_WORLD_RANK", "RANK") if k in os.environ), os.environ["RUNSPEC_RANK"])
end = time.monotonic() + 100
while not count and time.monotonic() < end:
    time.sleep(0.05)
time.sleep(1)
with open(os.path.join(sys.argv[1], "rank-" + rank), "w") as file:
    file.write("got %d" % len(count))
last = os.environ.get("LAST", "")
if rank != "0" and last:
    open(last, "w").close()
while last and not os.path.exists(last) and time.monotonic() < end:
    time.sleep(0.05)
"""


def spec(provider: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "runspec/v1",
        "name": "job",
        "provider": provider,
        "cluster": {"nodes": 2},
        "timeout": "90s",
        "signal": {"name": "USR1", "before": "80s"},
        "env": {"PATH": os.environ["PATH"]},
        "run": f"python3 -c '{PROGRAM}' \"${{outputs.out}}\"\n:\n",
        "outputs": [{"name": "out", "path": "/job/out"}],
        "providers": {"local": {"engine": "process"}},
        **more,
    }


def told(outputs: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in outputs.rglob("rank-*")}


def here(folder: Path, **more: Any) -> dict[str, str]:
    own_profile().write_text("providers: {local: {grace: 2s}}\n")
    (folder / "job.yaml").write_text(json.dumps(spec("local", **more)))
    assert run(["apply", "job.yaml"]) == 0
    assert run(["fetch", "job", str(folder / "kept")]) == 0
    return told(folder / "kept")


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_each_rank_of_mpi_gets_it_once(
    mpi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An mpirun of Open MPI would pass it on."""
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)

    assert here(tmp_path, launch="mpi", processes_per_node=2) == {
        f"rank-{rank}": "got 1" for rank in range(4)
    }


def test_nodes_of_an_elastic_job_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a job is over as soon as its first program has succeeded, so that this one has to wait for the other."""
    monkeypatch.chdir(tmp_path)
    outputs = [{"name": "out", "path": "/job/out", "from": "all"}]
    env = {"PATH": os.environ["PATH"], "LAST": str(tmp_path / "last")}
    found = here(tmp_path, cluster={"nodes": {"min": 2, "max": 2}}, outputs=outputs, env=env)

    assert found == {"rank-0": "got 1", "rank-1": "got 1"}


@pytest.mark.parametrize("provider", ["aws-batch", "azure-batch"])
def test_each_node_in_a_cloud_gets_it(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("azurite")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(json.dumps(spec(provider)))

    assert run(["rehearse", "job.yaml", "--folder", str(tmp_path / "kept")]) == 0

    assert told(tmp_path / "kept") == {"rank-0": "got 1", "rank-1": "got 1"}


def test_each_process_of_a_step_of_slurm_gets_it(project: Project, torchrun: str) -> None:
    """The batch script keeps the time limit, and tells the agents of all nodes."""
    more = {"launch": "torchrun", "processes_per_node": 2, "env": {"PATH": torchrun}}
    fields = spec("slurm", **more)

    found = project.ended(fields.pop("run"), **fields)

    assert found["state"] == "succeeded", project.log()
    files = {Path(name).name: text for name, text in project.fetched().items()}
    assert files == {f"rank-{rank}": "got 1" for rank in range(4)}
    assert project.log().count("USR1 was sent to processes of the program: 2") == 2
