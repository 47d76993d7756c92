"""What others of a cluster do to the Job of a run: sidecars that a mesh adds, and Kueue."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.kubernetes.controllers import job_pods
from runspec_emulators.kubernetes.controllers.job_round import is_finished
from runspec_emulators.kubernetes.emulator import Kubernetes
from runspec_emulators.kubernetes.resources import EVENTS, JOBS, LOCAL_QUEUES
from runspec_emulators.kubernetes.world import copied, key_of
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
SIDECAR = {
    "name": "istio-proxy",
    "image": "istio",
    "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"],
}


@pytest.fixture
def mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each pod get a sidecar, as from an admission webhook."""

    def with_sidecar(template: Any) -> Any:
        made = copied(template)
        made["spec"]["containers"].append(SIDECAR)
        return made

    monkeypatch.setattr(job_pods, "copied", with_sidecar)


@pytest.mark.usefixtures("bare", "mesh")
@pytest.mark.parametrize("code", [0, 3])
def test_a_sidecar_does_not_keep_a_run_alive(capsys: Capture, code: int) -> None:
    write(f"exit {code}")

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == ("failed" if code else "succeeded")
    status = said(capsys, "status", found["run"])
    assert status["exit_code"] == code


@pytest.mark.usefixtures("cluster", "mesh")
def test_tasks_after_one_with_a_sidecar_are_run(capsys: Capture) -> None:
    """Its pod takes the only place of `max_parallel` until it has ended."""
    write("true", sweep={"lr": [1, 2]}, max_parallel=1)

    assert run(["apply", "job.yaml"]) == 0

    assert "which istio-proxy runs" in capsys.readouterr().err


@pytest.fixture
def queued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """A cluster with Kueue, whose queue has no room."""
    waits = "insufficient quota for cpu"
    queue = {"queue": "team"}
    for found in prepared(tmp_path, monkeypatch, options=queue, kueue=True, kueue_waits=waits):
        with found.world.lock:
            metadata = {"name": "team", "namespace": "default"}
            found.world.put(LOCAL_QUEUES, {"metadata": metadata, "spec": {}, "status": {}})
        yield found


def test_a_canceled_run_never_begins_when_its_queue_has_room(
    queued: Kubernetes, capsys: Capture
) -> None:
    write("echo begun")
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    waits = wait(lambda: said(capsys, "status", found)["reason"], "it waits")

    assert run(["cancel", found]) == 0
    queued.control("PUT", "settings", {"kueue_waits": ""})
    wait(lambda: is_finished(listed(queued, JOBS)[0]), "the Job has ended")

    assert "insufficient quota" in waits
    assert said(capsys, "status", found)["state"] == "cancelled"
    events = listed(queued, EVENTS)
    assert [e["message"] for e in events if e["reason"] == "SuccessfulCreate"] == []


@pytest.mark.parametrize("kind", ["cluster", "bare"])
def test_a_run_that_kueue_preempts_is_no_failure(
    kind: str, request: pytest.FixtureRequest, capsys: Capture
) -> None:
    """Kueue suspends its Job, and starts it again later."""
    cluster: Kubernetes = request.getfixturevalue(kind)
    write('echo begun; test -n "$AGAIN" || exec sleep 600; echo done', retry={"attempts": 1})
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: "begun" in read_log(found, capsys), "it has begun")
    follow = [sys.executable, "-m", "runspec_jobs", "logs", found, "--follow"]

    with subprocess.Popen(follow, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        first = follower.stdout.readline()
        suspend(cluster, on=True)
        wait(lambda: not pods(cluster), "its pod is gone")
        state = said(capsys, "status", found)["state"]
        suspend(cluster, on=False)
        printed, _ = follower.communicate()

    assert (state, follower.returncode) == ("waiting", 0)
    assert said(capsys, "status", found)["state"] == "succeeded"
    assert [first, *printed.splitlines()] == ["begun\n", "begun", "done"]


def read_log(name: str, capsys: Capture) -> str:
    capsys.readouterr()
    run(["logs", name])
    return capsys.readouterr().out


def suspend(cluster: Kubernetes, *, on: bool) -> None:
    """Suspend the Job, or start it with the variable AGAIN."""

    def change(job: Any) -> None:
        job["spec"]["suspend"] = on
        env = job["spec"]["template"]["spec"]["containers"][0]["env"]
        env += [] if on else [{"name": "AGAIN", "value": "1"}]

    with cluster.world.lock:
        (job,) = cluster.world.all(JOBS)
        cluster.world.change(JOBS, *key_of(job), change)
        cluster.world.wake_in(0)
