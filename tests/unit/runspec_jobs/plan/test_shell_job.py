"""The job that holds a node for a shell: what it keeps of the spec, and that it never holds a node for nobody."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runspec_jobs.api import jobs
from runspec_jobs.plan import shell_job

SPEC = """\
apiVersion: runspec/v1
name: a-name-of-thirty-eight-letters-and-more
provider: local
cluster: {nodes: {min: 1, max: 3}, memory: 1GiB}
env: {LR: x}
mounts: [{name: code, source: ., target: /job/code}]
launch: torchrun
sweep: {lr: [0.1, 0.2]}
metric: {name: loss, goal: min, pattern: 'loss=(\\S+)'}
retry: {attempts: 3, spot_attempts: 4}
run: python train.py ${sweep.lr}
timeout: 2h
"""


def test_the_job_has_what_the_spec_says_but_one_node_one_attempt_and_no_program(
    tmp_path: Path,
) -> None:
    job = jobs.load(SPEC.encode(), base=tmp_path)

    found = jobs.make_shell_job(job).spec

    assert found.name == "a-name-of-thirty-eight-letters-and-shell"
    assert (found.cluster.nodes.max, found.cluster.memory) == (1, 1 << 30)
    assert (found.retry.attempts, found.retry.spot_attempts, found.timeout) == (1, 1, 7200)
    assert found.mounts == job.spec.mounts
    assert found.env == job.spec.env
    assert found.sweep == {"lr": ("0.1",)}
    assert found.command == ("/bin/sh", "-c", shell_job.HOLD)
    assert (found.run, found.metric, str(found.launch)) == (None, None, "none")


@pytest.mark.process
def test_a_node_to_which_nobody_comes_is_given_back(tmp_path: Path) -> None:
    """Whoever asked for it may have been killed while the job was waiting."""
    impatient = shell_job.HOLD.replace(str(shell_job.ARRIVE_S), "1")
    env = {**os.environ, "TMPDIR": str(tmp_path), "RUNSPEC_RUN": "job-1"}

    done = subprocess.run(
        ["/bin/sh", "-c", impatient], env=env, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == shell_job.NOBODY
    assert done.stdout.splitlines()[0] == shell_job.READY
    assert "no shell was opened within 1 s" in done.stdout
    assert list(tmp_path.iterdir()) == []
