"""The present agent on stores that an older one wrote: a service may start another try after an upgrade."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runspec_agent.elastic.checkpoint import CheckpointManifest
from runspec_agent.elastic.fence import FencingToken
from runspec_agent.elastic.policy import DONE, State
from runspec_agent.store.folder import FolderBucket
from runspec_jobs.provider.payload import pack_agent
from tests.support import old_versions

SLURM = old_versions.FROZEN / "slurm/store/runs"
SHOW = 'cat "$RUNSPEC_OUTPUT_OUT/a.txt"; echo more >> "$RUNSPEC_OUTPUT_OUT/a.txt"'


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return old_versions.thawed("slurm", tmp_path) / "store"


def again(store: Path, name: str, agent: bytes, attempt: int) -> subprocess.CompletedProcess[str]:
    """Start another try of a run, by an agent."""
    of = next((store / "runs").glob(f"{name}-*"))
    place = store / "agent.pyz"
    place.write_bytes(agent)
    env = {
        **os.environ,
        "RUNSPEC_RUN": of.name,
        "RUNSPEC_STORE": f"file://{store}",
        "RUNSPEC_JOB": (of / "claim").read_text(),
        "RUNSPEC_TASK": "0",
        "RUNSPEC_ATTEMPT": str(attempt),
        "RUNSPEC_BELOW": ".",
        "RUNSPEC_GRACE_S": "1",
    }
    line = [sys.executable, "-IS", str(place), "job", "--", "/bin/sh", "-c", SHOW]
    scratch = store.parent / f"try-{attempt}"
    scratch.mkdir()
    return subprocess.run(line, env=env, cwd=scratch, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_a_try_of_the_present_agent_begins_with_what_an_older_one_saved(store: Path) -> None:
    """And a third try, with what both have saved."""
    second = again(store, "running", pack_agent(), 2)
    third = again(store, "running", pack_agent(), 3)

    assert (second.returncode, second.stdout) == (0, "kept\n"), second.stderr
    assert (third.returncode, third.stdout) == (0, "kept\nmore\n"), third.stderr


@pytest.mark.process
def test_the_older_agent_goes_on_with_its_own_store(store: Path) -> None:
    done = again(store, "running", old_versions.AGENT, 2)

    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr


def test_a_save_of_an_older_elastic_job_is_restored(store: Path, tmp_path: Path) -> None:
    (of,) = (store / "runs").glob("elastic-*")
    bucket = FolderBucket({"RUNSPEC_STORE": f"file://{store}"})
    prefix = f"runs/{of.name}/elastic/0/"
    state, fence = (bucket.get(prefix + name) for name in ("state", "fence"))
    assert state is not None and fence is not None
    kept = CheckpointManifest(bucket, prefix, f"runs/{of.name}/", 0)
    (tmp_path / "out").mkdir()
    kept.add("out", str(tmp_path / "out"), 1.0)

    kept.restore(FencingToken.of(fence).note)

    assert State.of(state).phase == DONE
    assert (tmp_path / "out/step.txt").read_text() == "3\n"
