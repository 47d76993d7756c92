"""A live run on Kubernetes can be ended although its record is damaged: its objects bear its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runspec_emulators.kubernetes.emulator import Kubernetes
from runspec_emulators.kubernetes.resources import JOBS, RESOURCES
from runspec_jobs.cli.app import run
from tests.support.kubernetes.emulated_cluster import (
    Capture,
    cluster as cluster,  # a fixture
    listed,
    objects as objects,  # a fixture
    pods,
    said,
    write,
)
from tests.support.wait import until

pytestmark = pytest.mark.slow

MADE = [kind for kind in RESOURCES if kind.names.plural in ("jobs", "pods", "secrets", "services")]


def spoil(run: str, file: str) -> None:
    Path(os.environ["RUNSPEC_HOME"], "runs", run, file).write_bytes(b"\0{garbage\n" * 9)


def started(capsys: Capture, cluster: Kubernetes, spoilt: str) -> str:
    """Start a job, spoil a file of its record, and return its run."""
    write("exec sleep 600")
    name: str = said(capsys, "apply", "job.yaml", "--detach")["run"]
    until(lambda: [pod for pod in pods(cluster) if pod["status"].get("phase") == "Running"])
    spoil(name, spoilt)
    return name


@pytest.mark.parametrize("spoilt", ["plan.json", "journal.jsonl"])
def test_a_damaged_run_is_destroyed_with_all_that_was_made_for_it(
    cluster: Kubernetes, capsys: Capture, spoilt: str
) -> None:
    name = started(capsys, cluster, spoilt)

    assert run(["destroy", name]) == 0

    assert "was ended by its id" in capsys.readouterr().err
    assert [made["metadata"]["name"] for kind in MADE for made in listed(cluster, kind)] == []


def test_a_damaged_run_is_canceled_and_its_files_stay(cluster: Kubernetes, capsys: Capture) -> None:
    name = started(capsys, cluster, "plan.json")

    assert run(["cancel", name]) == 0

    assert pods(cluster) == []
    assert [job["metadata"]["name"] for job in listed(cluster, JOBS)] == [name]


def test_without_the_facts_of_the_run_the_way_out_is_named(
    cluster: Kubernetes, capsys: Capture
) -> None:
    """They say which cluster it is."""
    name = started(capsys, cluster, "facts.json")

    assert run(["destroy", name]) == 69

    assert f"runspec destroy {name} --forget" in capsys.readouterr().err
