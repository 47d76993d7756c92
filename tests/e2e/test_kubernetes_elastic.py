"""Nodes of an elastic job on a rehearsed cluster of Kubernetes are given back, and come when they are asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from runspec_agent.base.end_causes import AWAY
from runspec_emulators.kubernetes.emulator import Kubernetes
from runspec_emulators.kubernetes.resources import JOBS
from runspec_jobs.cli.app import run
from tests.support.kubernetes.emulated_cluster import (
    Capture,
    cluster as cluster,  # a fixture
    listed,
    objects as objects,  # a fixture
    said,
    write,
)

pytestmark = pytest.mark.slow
LIMIT_S = 120.0
# Counts steps from those of the last save on.
COUNTS = """\
step=$(cat "${outputs.out}/step" 2>/dev/null || echo 0)
echo "of $RUNSPEC_NODES: begins with $step"
trap 'echo $step >"${outputs.out}/step"; echo "ends with $step"; exit 143' TERM
until [ $step -ge 300 ]; do step=$((step + 1)); sleep 0.1; done
"""


def until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.3)


def running(capsys: Capture) -> list[int]:
    nodes = said(capsys, "status", "job")["nodes"]
    return [node["rank"] for node in nodes if node["state"] == "running"]


def resize(capsys: Capture, *words: str) -> tuple[int, int]:
    size = said(capsys, *words)["size"]
    return size["asked"], size["present"]


def test_nodes_that_are_given_back_come_as_further_indexes_of_the_job(
    cluster: Kubernetes, capsys: Capture
) -> None:
    fields: dict[str, Any] = {"cluster": {"nodes": {"min": 1, "max": 3}}}
    write(COUNTS, outputs=[{"name": "out", "path": "/job/out"}], **fields)
    assert run(["apply", "job.yaml", "--detach"]) == 0
    until(lambda: running(capsys) == [0, 1, 2], "three run")

    assert resize(capsys, "release", "job", "0", "2") == (1, 1)
    assert resize(capsys, "resize", "job", "2")[0] == 2
    until(lambda: running(capsys) == [0, 1], "the first is back")
    assert resize(capsys, "release", "job", "1") == (1, 1)  # the one that never left
    assert resize(capsys, "resize", "job", "3")[0] == 3
    until(lambda: running(capsys) == [0, 1, 2], "all are back")
    assert run(["logs", "-f", "job"]) == 0

    found = said(capsys, "status", "job")
    assert (found["state"], found["exit_code"]) == ("succeeded", 0)
    numbers = [[a["number"] for a in node["attempts"]] for node in found["nodes"]]
    assert numbers == [[1, 2]] * 3
    assert AWAY not in {node["reason"] for node in found["nodes"]}
    (job,) = listed(cluster, JOBS)
    assert (job["spec"]["completions"], job["status"]["succeeded"]) == (6, 6)
    assert run(["logs", "job"]) == 0
    assert capsys.readouterr().out.count("this node was released") == 3
