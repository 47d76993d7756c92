"""Jobs on a rehearsed cluster of Kubernetes, by the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.aws.region import Objects
from runspec_emulators.kubernetes.emulator import Kubernetes
from runspec_emulators.kubernetes.resources import CLAIMS, JOBS, PODS
from runspec_jobs.cli.app import run
from tests.support.azure.emulated_account import wait
from tests.support.kubernetes.emulated_cluster import (
    Capture,
    bare as bare,  # a fixture
    cluster as cluster,  # a fixture
    listed,
    objects as objects,  # a fixture
    pods,
    prepared,
    said,
    write,
)

pytestmark = pytest.mark.slow
CHAIN = """\
apiVersion: runspec/v1
name: prepare
provider: kubernetes
outputs: [{name: data, path: /job/data}]
run: echo 42 > "${outputs.data}/n"
---
apiVersion: runspec/v1
name: train
provider: kubernetes
needs: [prepare]
mounts: [{name: data, source: run://prepare/data, target: /job/in}]
run: cat "${mounts.data}/n"
"""


@pytest.fixture
def claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """A cluster whose store is a volume claim."""
    for found in prepared(tmp_path, monkeypatch, options={"store": "pvc:runs"}):
        metadata = {"name": "runs", "namespace": "default"}
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        with found.world.lock:
            found.world.put(CLAIMS, {"metadata": metadata, "spec": spec, "status": {}})
        yield found


def test_a_job_without_a_store_runs_and_is_proven(bare: Kubernetes, capsys: Capture) -> None:
    write("echo \"hello $HOME\"; echo '$(HOME) $$'; id -u")

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded"
    run(["logs", found["run"]])
    assert capsys.readouterr().out.splitlines()[:2] == ["hello /runspec/home", "$(HOME) $$"]


def test_exit_codes_and_attempts_are_told(bare: Kubernetes, capsys: Capture) -> None:
    write('echo "try $RUNSPEC_ATTEMPT"; exit 3', retry={"attempts": 2})

    found = said(capsys, "apply", "job.yaml")

    status = said(capsys, "status", found["run"])
    assert (status["state"], status["exit_code"]) == ("failed", 3)
    (node,) = status["nodes"]
    assert [a["exit_code"] for a in node["attempts"]] == [3, 3]
    run(["logs", found["run"]])
    assert [line for line in capsys.readouterr().out.splitlines() if "try" in line] == [
        "try 1",
        "try 2",
    ]


def test_mounts_and_outputs_go_through_the_store(cluster: Kubernetes, capsys: Capture) -> None:
    Path("code").mkdir()
    Path("code/one").write_text("1\n")
    write(
        'cat "${mounts.code}/one"; cp "${mounts.code}/one" "${outputs.made}/two"',
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "made", "path": "/job/made"}],
    )

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded", said(capsys, "status", found["run"])
    assert run(["fetch", found["run"]]) == 0
    assert [p.read_text() for p in Path().rglob("two")] == ["1\n"]


def test_a_log_that_the_node_rotates_is_whole(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Followed while it is printed, and of a pod that is gone."""
    lines = 200_000
    program = f"for n in range({lines}): print(f'line {{n}} of this log')"
    for rotating in prepared(tmp_path, monkeypatch, objects, log_bytes=3 << 20):
        write(f'python3 -c "{program}"')
        found = said(capsys, "apply", "job.yaml", "--detach")

        run(["logs", "-f", found["run"], "--save", "followed"])
        with rotating.world.lock:
            for pod in pods(rotating):
                rotating.world.remove(PODS, pod)
        run(["logs", found["run"], "--save", "kept"])

        printed = "".join(f"line {n} of this log\n" for n in range(lines))
        assert Path("followed").read_text() == Path("kept").read_text() == printed


def test_a_volume_claim_is_a_store(claimed: Kubernetes, capsys: Capture) -> None:
    """This machine reaches it through one pod, and has the log of a pod that is gone."""
    Path("code").mkdir()
    Path("code/one").write_text("1\n")
    write(
        'echo hello; cp "${mounts.code}/one" "${outputs.made}/two"',
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "made", "path": "/job/made"}],
    )

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded", said(capsys, "status", found["run"])
    assert run(["fetch", found["run"]]) == 0
    assert [p.read_text() for p in Path().rglob("two")] == ["1\n"]
    helpers = [job for job in listed(claimed, JOBS) if job["metadata"]["name"] != found["run"]]
    assert [job["spec"]["ttlSecondsAfterFinished"] for job in helpers] == [0]
    with claimed.world.lock:
        for pod in pods(claimed):
            if pod["metadata"]["name"].startswith(found["run"]):
                claimed.world.remove(PODS, pod)
    capsys.readouterr()
    assert run(["logs", found["run"]]) == 0
    assert capsys.readouterr().out == "hello\n"


def test_tasks_of_a_sweep_are_indexes(cluster: Kubernetes, capsys: Capture) -> None:
    write('echo "lr ${sweep.lr}"; test "${sweep.lr}" != 2', sweep={"lr": [1, 2, 3]})

    found = said(capsys, "apply", "job.yaml")

    status = said(capsys, "status", found["run"])
    assert status["state"] == "failed"
    assert [n["state"] for n in status["nodes"]] == ["succeeded", "failed", "succeeded"]


def test_nodes_of_a_gang_meet(cluster: Kubernetes, capsys: Capture) -> None:
    write(
        'echo "$RUNSPEC_RANK of $RUNSPEC_NODES"; cat "$RUNSPEC_HOSTFILE" | wc -l',
        cluster={"nodes": 2},
    )

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded", said(capsys, "status", found["run"])


def test_a_cancelled_run_ends_and_is_destroyed(cluster: Kubernetes, capsys: Capture) -> None:
    write("echo begun; exec sleep 60")
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: [p for p in pods(cluster) if p["status"].get("phase") == "Running"], "a pod runs")

    assert run(["cancel", found]) == 0

    (row,) = said(capsys, "list")["runs"]
    assert row["state"] == "cancelled"
    assert run(["destroy", found]) == 0
    assert pods(cluster) == []


def test_a_pod_that_is_evicted_is_no_failure(cluster: Kubernetes, capsys: Capture) -> None:
    write('echo "try $RUNSPEC_ATTEMPT"; test "$RUNSPEC_ATTEMPT" = 2 || exec sleep 60')
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    (pod,) = wait(
        lambda: [p for p in pods(cluster) if p["status"].get("phase") == "Running"], "a pod runs"
    )
    cluster.control("POST", "evict", {"pod": pod["metadata"]["name"]})

    code = run(["logs", found, "--follow"])

    status: Any = said(capsys, "status", found)
    assert (code, status["state"]) == (0, "succeeded")
    (node,) = status["nodes"]
    assert [a["reclaimed"] for a in node["attempts"]] == [True, False]


def test_a_pod_that_no_node_takes_says_why(bare: Kubernetes, capsys: Capture) -> None:
    write("true", cluster={"gpus": 8})
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]

    reason = wait(lambda: said(capsys, "status", found)["reason"], "there is a reason")

    assert "Insufficient nvidia.com/gpu" in reason
    assert run(["destroy", found]) == 0


def test_jobs_of_a_chain_follow_each_other_and_read_in_place(
    cluster: Kubernetes, capsys: Capture
) -> None:
    """The client starts the second one, since no Job waits for another."""
    Path("chain.yaml").write_text(CHAIN)

    assert run(["apply", "chain.yaml"]) == 0

    assert "train   | 42" in capsys.readouterr().out
    jobs = [job["metadata"]["name"].rpartition("-")[0] for job in listed(cluster, JOBS)]
    assert sorted(jobs) == ["prepare", "train"]
    assert run(["apply", "chain.yaml"]) == 0
    assert len(listed(cluster, JOBS)) == 2
