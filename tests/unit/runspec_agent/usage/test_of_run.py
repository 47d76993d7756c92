"""What the nodes of a run on this machine use is in a record of each."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runspec_agent.usage.of_run import RunUsage
from runspec_jobs.machines.usage import read_usage


@pytest.mark.process
def test_each_sample_of_a_node_is_in_its_record(tmp_path: Path) -> None:
    own = {"RUNSPEC_TASK": "3", "RUNSPEC_ATTEMPT": "2", "RUNSPEC_RANK": "1"}
    env = {"RUNSPEC_RUN": tmp_path.name, "PATH": "/nowhere", **own}
    usage = RunUsage(str(tmp_path))
    with subprocess.Popen(["/bin/sleep", "600"], env=env) as node:
        try:
            usage.sample(os.getpid())
            usage.sample(os.getpid())
        finally:
            node.kill()
    usage.sample(os.getpid())  # after its end, it has no meter

    content = (tmp_path / "usage/3/2/1").read_bytes()
    (found,) = read_usage(["3/2/1"], lambda names: [content], None).nodes
    assert (found.task, found.attempt, found.rank) == (3, 2, 1)
    assert len(found.points) == 2
    assert usage.meters == {}
