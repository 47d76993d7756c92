"""`runspec rehearse` of a job for Slurm: submitted by sbatch, run by slurmd, read and taken away again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from tests.e2e.test_launch import mpi as mpi  # a fixture
from tests.emulators.slurm.hand import holders
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
PROFILE = """
providers:
  slurm:
    host: me@login.example
    partition: efa
    account: lab
    environment: clean
    sbatch: [--constraint=ib]
"""
SPEC = """
apiVersion: runspec/v1
name: rehearsed
provider: slurm
cluster: {nodes: 2, gpus: 2, gpu_type: V100}
outputs: [{name: results, path: /job/results}]
run: |
  echo "$RUNSPEC_RANK on $SLURMD_NODENAME of $SLURM_JOB_PARTITION has $CUDA_VISIBLE_DEVICES"
  echo "$RUNSPEC_RANK" > "${outputs.results}/rank"
"""
MPI = """
apiVersion: runspec/v1
name: world
provider: slurm
cluster: {{nodes: 2}}
launch: mpi
processes_per_node: 2
env: {{PATH: "{mpi}/bin:/usr/bin:/bin"}}
command: [python, "{folder}/world.py"]
"""
WORLD = """
import os
from mpi4py import MPI

world = MPI.COMM_WORLD
total, nodes = world.allreduce(world.rank + 1), world.gather(int(os.environ["RUNSPEC_RANK"]))
if world.rank == 0:
    print(f"{world.size}: {total} {nodes}", flush=True)
"""
PLUGIN = {"openmpi": "pmix", "mpich": "pmi2"}


def test_the_plan_of_a_real_cluster_runs_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(*PROGRAMS)
    own_profile().write_text(PROFILE)
    (tmp_path / "job.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)

    assert run(["rehearse", "job.yaml", "--folder", "kept"]) == 0

    logs = sorted((tmp_path / "kept" / "logs").iterdir())
    assert [log.read_text() for log in logs] == [
        "0 on node1 of efa has 0,1\n",
        "1 on node2 of efa has 0,1\n",
    ]
    results = (tmp_path / "kept" / "outputs").rglob("rank")
    assert sorted(result.read_text() for result in results) == ["0\n", "1\n"]
    assert holders(tmp_path / "kept" / "slurm") == []


def test_srun_starts_ranks_of_one_machine_that_plays_several(
    mpi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the plugin of Slurm that this MPI knows: one world, two ranks on each node."""
    need(*PROGRAMS)
    plugin = PLUGIN[mpi.name]
    profile = f"{PROFILE}    mpi: srun\n    mpi_type: {plugin}\n"
    own_profile().write_text(profile)
    (tmp_path / "world.py").write_text(WORLD)
    (tmp_path / "job.yaml").write_text(MPI.format(mpi=mpi, folder=tmp_path))
    monkeypatch.setenv("PATH", f"{mpi}/bin:{os.environ['PATH']}")  # which nodes see in any case
    monkeypatch.chdir(tmp_path)

    assert run(["rehearse", "job.yaml", "--folder", "kept"]) == 0

    (first, second) = sorted((tmp_path / "kept" / "logs").iterdir())
    assert first.read_text() == "4: 10 [0, 0, 1, 1]\n"
    assert second.read_text() == ""


PARALLEL_PROFILE = """
providers:
  parallelcluster:
    region: us-east-1
    key_pair: my-key
    subnets: [subnet-0123456789abcdef0]
    queues: {gpu: {instance_types: [g5.12xlarge]}}
    queue: gpu
    environment: clean
    storage: {workspace: {mount: /workspace, data: s3://my-bucket/data}}
"""
PARALLEL = """
apiVersion: runspec/v1
name: rehearsed
provider: parallelcluster
cluster: {nodes: 2, gpus: 4}
mounts: [{name: data, source: "shared://workspace/a", target: /job/data}]
outputs: [{name: results, path: /job/results}]
run: |
  echo "$RUNSPEC_RANK on $SLURMD_NODENAME of $SLURM_JOB_PARTITION has $CUDA_VISIBLE_DEVICES"
  echo "$RUNSPEC_RANK" > "${outputs.results}/rank"
"""


def test_a_job_of_parallelcluster_is_rehearsed_and_what_is_not_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need(*PROGRAMS)
    own_profile().write_text(PARALLEL_PROFILE)
    (tmp_path / "job.yaml").write_text(PARALLEL)
    (tmp_path / "kept/shared/workspace/a").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    code = run(["rehearse", "job.yaml", "--folder", "kept"])

    said = capsys.readouterr().err
    assert code == 0, said
    assert "not rehearsed: the cluster with its queues" in said
    logs = sorted((tmp_path / "kept" / "logs").iterdir())
    assert [log.read_text() for log in logs] == [
        "0 on node1 of gpu has 0,1,2,3\n",
        "1 on node2 of gpu has 0,1,2,3\n",
    ]
    results = (tmp_path / "kept" / "outputs").rglob("rank")
    assert sorted(result.read_text() for result in results) == ["0\n", "1\n"]
    assert holders(tmp_path / "kept" / "slurm") == []


def test_a_rehearsal_makes_no_cluster_whatever_the_spec_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need(*PROGRAMS)
    own = "providers: {parallelcluster: {manage: true, region: us-east-1, key_pair: my-key, "
    own += "subnets: [subnet-0123456789abcdef0]}}"
    (tmp_path / "job.yaml").write_text(
        f"{PARALLEL}{own}".replace("shared://workspace/a", "store://a").replace(
            "gpus: 4", "cpus: 1"
        )
    )
    monkeypatch.chdir(tmp_path)

    code = run(["rehearse", "job.yaml"])

    assert code == 2
    assert "'manage' belongs to a profile" in capsys.readouterr().err


def test_files_that_runspec_has_fetched_are_left_out_as_in_an_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need(*PROGRAMS)
    monkeypatch.chdir(tmp_path)
    spec = """
apiVersion: runspec/v1
name: lists
provider: local
mounts: [{name: here, source: ., target: /job/here}]
outputs: [{name: made, path: /job/made}]
run: 'ls "${mounts.here}"; echo 1 > "${outputs.made}/file"'
"""
    Path("job.yaml").write_text(spec)
    assert run(["apply", "job.yaml"]) == 0
    assert run(["fetch", "lists", "got"]) == 0
    capsys.readouterr()

    assert run(["rehearse", "job.yaml", "--provider", "slurm"]) == 0

    assert capsys.readouterr().out.split() == ["job.yaml"]
