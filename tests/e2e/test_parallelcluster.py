"""A job on a cluster that is made for it, by the command line, behind a `pcluster` that stands in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runspec_emulators.slurm import Cluster, Partition
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm import fake_pcluster
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow

PROFILE = """\
providers:
  parallelcluster:
    region: us-east-1
    subnets: [subnet-0123456789abcdef0]
    key_pair: my-key
    workspace: {workspace}
    python: {python}
    environment: clean
"""
SPEC = "apiVersion: runspec/v1\nname: hello\nprovider: parallelcluster\ncommand: [echo, hello]\n"
Runspec = Callable[..., str]


@pytest.fixture
def runspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runspec]:
    need(*PROGRAMS, "node")
    programs = fake_pcluster.install(tmp_path / "bin")
    workspace = tmp_path / "workspace"
    profile = PROFILE.format(workspace=workspace, python=sys.executable)
    own_profile().write_text(profile)
    (tmp_path / "hello.yaml").write_text(SPEC)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with Cluster(
        tmp_path / "slurm",
        partitions=[Partition("ondemand")],
        prolog=True,
        address_in="RUNSPEC_HOST",
    ) as cluster:
        for name, value in cluster.env.items():
            monkeypatch.setenv(name, value)

        def call(*words: str) -> str:
            done = subprocess.run(
                [sys.executable, "-m", "runspec_jobs", *words],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout + done.stderr

        yield call


@pytest.mark.essential
def test_a_cluster_is_made_for_a_job_and_goes_when_nothing_needs_it(
    runspec: Runspec, tmp_path: Path
) -> None:
    clusters = tmp_path / "bin" / "clusters"

    said = runspec("apply", "hello.yaml")
    (made,) = clusters.iterdir()

    assert "make the cluster runspec-" in said and said.startswith("hello\n")
    assert "starting no other" in runspec("apply", "hello.yaml")
    assert "succeeded" in runspec("status", "hello")
    assert runspec("logs", "hello") == "hello\n"
    runspec("destroy", "hello")
    assert list(clusters.iterdir()) == [made]
    runspec("destroy", "--site")
    assert list(clusters.iterdir()) == []
    assert [p for p in (tmp_path / "workspace").rglob("*") if p.is_file()] == []


@pytest.mark.matrix
def test_a_new_shell_has_a_cluster_made_for_it(runspec: Runspec, tmp_path: Path) -> None:
    words = ("--", "printenv", "RUNSPEC_RUN", "RUNSPEC_PYTHON")
    extra = ("--set", "timeout=5m", "--set", "container.requirements=[six]")

    said = runspec("shell", "--new", *extra, "hello.yaml", *words)

    lines = [line for line in said.splitlines() if not line.startswith("runspec:")]
    assert any(line.startswith("hello-shell-") for line in lines), said
    assert any(str(tmp_path / "workspace" / "environments") in line for line in lines), said
