"""A job on a cluster that is made for it, by the command line, behind a `pcluster` that stands in."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from runspec_emulators.slurm import Partition
from tests.support.slurm.pcluster_site import pcluster_site

pytestmark = pytest.mark.slow

SPEC = "apiVersion: runspec/v1\nname: hello\nprovider: parallelcluster\ncommand: [echo, hello]\n"
Runspec = Callable[..., str]


@pytest.fixture
def runspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runspec]:
    with site(tmp_path, monkeypatch) as call:
        yield call


@contextlib.contextmanager
def site(
    folder: Path, patch: pytest.MonkeyPatch, slurm: Mapping[str, int] | None = None
) -> Iterator[Runspec]:
    """Give runspec's command line, with *slurm* as settings of the cluster to be made."""
    (folder / "hello.yaml").write_text(SPEC)
    settings = {"workspace": str(folder / "workspace"), "slurm_settings": slurm or {}}
    with pcluster_site(
        folder, patch, settings, partitions=[Partition("ondemand")], more=slurm or {}
    ):

        def call(*words: str) -> str:
            done = subprocess.run(
                [sys.executable, "-m", "runspec_jobs", *words],
                cwd=folder,
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


def test_a_sweep_larger_than_an_array_is_one_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(tmp_path, monkeypatch, {"MaxArraySize": 10}) as runspec:
        (tmp_path / "hello.yaml").write_text(
            SPEC.replace("[echo, hello]", "[printenv, RUNSPEC_TASK]")
            + f"sweep: {{n: {list(range(21))}}}\n"
        )

        runspec("apply", "hello.yaml")

        found = json.loads(runspec("status", "hello", "--json"))
        assert [node["task"] for node in found["nodes"]] == list(range(21))
        assert {node["state"] for node in found["nodes"]} == {"succeeded"}
        told = [line.partition("]")[2] for line in runspec("logs", "hello").splitlines()]
        assert sorted(map(int, told)) == list(range(21))
        said = subprocess.run(
            ["squeue", "--states=all", "--noheader", "--format=%j %F"],
            capture_output=True,
            text=True,
        )
        assert len(set(said.stdout.splitlines())) == 3, said.stdout
        runspec("destroy", "hello")


@pytest.mark.matrix
def test_a_new_shell_has_a_cluster_made_for_it(runspec: Runspec, tmp_path: Path) -> None:
    words = ("--", "printenv", "RUNSPEC_RUN", "RUNSPEC_PYTHON")
    extra = ("--set", "timeout=5m", "--set", "container.requirements=[six]")

    said = runspec("shell", "--new", *extra, "hello.yaml", *words)

    lines = [line for line in said.splitlines() if not line.startswith("runspec:")]
    assert any(line.startswith("hello-shell-") for line in lines), said
    assert any(str(tmp_path / "workspace" / "environments") in line for line in lines), said


def test_a_secret_of_the_shell_is_in_a_private_file_of_the_cluster(
    runspec: Runspec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `setup` comes before the program here as well."""
    monkeypatch.setenv("TOKEN", "s3cret-s3cret")
    (tmp_path / "hello.yaml").write_text(
        SPEC.replace(
            "command: [echo, hello]", "setup: echo ready > flag\nrun: cat flag; echo ${#TOKEN}"
        )
        + "secrets: {TOKEN: {from: caller}}\n"
    )

    said = runspec("apply", "hello.yaml")

    assert "ready\n13\n" in said
    workspace = [path for path in (tmp_path / "workspace").rglob("*") if path.is_file()]
    with_it = [path for path in workspace if b"s3cret-s3cret" in path.read_bytes()]
    assert [path.stat().st_mode & 0o777 for path in with_it] == [0o600]
    runspec("destroy", "hello")
    assert not [path for path in with_it if path.exists()]
