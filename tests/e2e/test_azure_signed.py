"""Jobs on a rehearsed Azure Batch whose image has no Python: a shell, tar and curl are all there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.cli.app import run
from tests.support.agent.signed_store import image
from tests.support.azure import emulated_account
from tests.support.azure.emulated_account import (
    Capture,
    blobs as blobs,  # a fixture
    said,
    tasks,
    wait,
    write,
)
from tests.support.profiles import own_profile

pytestmark = pytest.mark.slow
IMAGE = {"image": "debian:12-slim"}


@pytest.fixture
def account(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    for found in emulated_account.prepared(blobs, tmp_path, monkeypatch):
        env = {"RUNSPEC_BELOW": ".", "PATH": str(image(tmp_path, "curl"))}
        found.control("PUT", "settings", {"machine_env": env})
        profile = json.loads(own_profile().read_text())
        profile["providers"]["azure-batch"]["files"] = "signed"
        own_profile().write_text(json.dumps(profile))
        yield found


def test_a_sweep_reads_a_folder_and_its_outputs_are_fetched(
    account: AzureBatch, blobs: Blobs, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "name").write_text("it's\n")
    script = 'cat ${mounts.code}/name; echo "$1 ${sweep.n} $RUNSPEC_TASK" >"${outputs.model}/f"'
    write(
        "",
        command=["sh", "-c", script, "sh", "a 'b\" $HOME \\ *"],
        container=IMAGE,
        sweep={"n": ["x", "y"]},
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "model", "path": "/job/model"}],
    )

    job = json.loads(Path("job.yaml").read_text())
    del job["run"]
    Path("job.yaml").write_text(json.dumps(job))

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded"
    assert run(["fetch", found["run"], "out"]) == 0
    texts = sorted(p.read_text() for p in Path("out").rglob("f"))
    assert texts == ["a 'b\" $HOME \\ * x 0\n", "a 'b\" $HOME \\ * y 1\n"]
    kept = [p for p in tmp_path.rglob("*") if p.is_file() and "account" not in p.parts]
    assert not [p for p in kept if b"sig=" in p.read_bytes()]


def test_a_try_whose_machine_went_and_one_that_failed_are_tried_again(
    account: AzureBatch, capsys: Capture
) -> None:
    script = (
        'f="$RUNSPEC_OUTPUT_STATE/n"; echo x >>"$f"; case $(grep -c x "$f") in '
        "1) exit 3;; *) echo done;; esac"
    )
    write(
        script,
        container=IMAGE,
        retry={"attempts": 2},
        outputs=[{"name": "state", "path": "/job/state"}],
    )

    found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded"
    (task,) = tasks(account)
    assert task["executionInfo"]["retryCount"] == 1


def test_lines_have_times_on_the_node_and_after_it(account: AzureBatch, capsys: Capture) -> None:
    """What is printed last has the time at which the task ended."""
    script = "for n in 1 2; do echo at $(date +%s); sleep 2; done; echo at $(date +%s)"
    write(script, container=IMAGE, cluster={"capacity": "spot"})

    found = said(capsys, "apply", "job.yaml")["run"]

    shown = []
    for _ in range(2):
        assert run(["logs", found, "--timestamps"]) == 0
        shown.append([line.split(" at ") for line in capsys.readouterr().out.splitlines()])
        if len(shown) == 1:
            (task,) = tasks(account)
            account.control("POST", "preempt", {"nodeId": task["attempts"][0]["nodes"][0]})
    assert shown[0] == shown[1]
    assert len(shown[0]) == 3
    for noted, printed in shown[0]:
        at = datetime.strptime(noted, "%Y-%m-%d %H:%M:%S").astimezone().timestamp()
        assert -1.1 < at - int(printed) < 2.1


def test_a_cancelled_job_does_not_begin(account: AzureBatch, capsys: Capture) -> None:
    write("sleep 60", container=IMAGE)
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    wait(lambda: [t for t in tasks(account) if t["state"] == "running"], "a task runs")

    assert run(["cancel", found]) == 0

    wait(lambda: not [t for t in tasks(account) if t["running"]], "nothing runs")
    assert run(["destroy", found]) == 0
