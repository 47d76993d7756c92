"""`runspec rehearse` of a job for Slurm: submitted by sbatch, run by slurmd, read and taken away again."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec.cli.main import run
from tests.needs import need
from tests.slurm import PROGRAMS
from tests.unit.runspec_rehearsal_slurm.hand import holders

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


def test_the_plan_of_a_real_cluster_runs_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(*PROGRAMS)
    (tmp_path / "runspec-profile.yaml").write_text(PROFILE)
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
