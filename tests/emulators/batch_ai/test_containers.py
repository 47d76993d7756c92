"""containerSettings: jobs in containers of podman, where that is the engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from runspec_emulators.batch_ai.jobs import containers
from runspec_emulators.batch_ai.settings import Settings
from runspec_emulators.frame.processes import marked
from tests.e2e.test_podman import IMAGE, podman as podman
from tests.emulators.batch_ai.hand import Hand, until

BOXED = {"imageSourceRegistry": {"image": IMAGE}, "shmSize": "2m"}


def test_a_container_is_told_names_of_variables_never_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/here")
    env = {"AZ_BATCHAI_JOB_TEMP": "/job", "TOKEN": "very-secret", "PATH": "/bin"}
    env |= {"SSL_CERT_FILE": "/here", "LC_ALL": "job's own"}
    asked = {"containerSettings": BOXED}

    words = containers.prefix(Settings(tmp_path, engine="podman"), asked, env)

    assert words[:2] == ("podman", "run")
    assert words[-1] == IMAGE
    assert "very-secret" not in json.dumps(words)
    assert ("--env", "TOKEN") in pairwise(words)
    assert ("--env", "LC_ALL") in pairwise(words)
    assert {("--env", "PATH"), ("--env", "SSL_CERT_FILE")} & set(pairwise(words)) == set()


def test_without_an_image_or_podman_a_job_is_a_process(tmp_path: Path) -> None:
    asked = {"containerSettings": BOXED}

    assert containers.prefix(Settings(tmp_path), asked, {}) == ()
    assert containers.prefix(Settings(tmp_path, engine="podman"), {}, {}) == ()


@pytest.mark.slow
@pytest.mark.podman
def test_a_job_runs_in_its_image(
    make: Callable[..., Hand], podman: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    hand = make(engine="podman", machine_env=podman).ready()

    done = hand.run(
        "cat /etc/hostname; echo $TOKEN; echo 1 >$AZ_BATCHAI_OUTPUT_M/f; df -k /dev/shm | tail -1",
        containerSettings=BOXED,
        secrets=[{"name": "TOKEN", "value": "a secret"}],
        outputDirectories=[{"id": "M", "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs"}],
    )

    assert done.execution_state == "succeeded", hand.text("stderr.txt")
    assert "a secret" in hand.text()
    assert " 2048 " in hand.text()
    assert hand.text("f", "M") == "1\n"


@pytest.mark.slow
@pytest.mark.podman
def test_a_container_ends_with_its_job(
    make: Callable[..., Hand], podman: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    hand = make(engine="podman", machine_env=podman, terminate_grace_s=0.2).ready()

    done = hand.run("sleep 300", containerSettings=BOXED, constraints={"maxWallClockTime": "PT3S"})

    assert done.execution_info.errors[0].code == "JobTimedOut"
    (node,) = hand.stand.control("GET", "nodes")
    assert until(lambda: not list(marked(f"{node['folder']}/jobs/job")))
