"""AWS Batch, rehearsed with real containers: images, memory, and an end that is the container's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_aws import timing
from runspec_emulators.aws.region import Objects, Region
from runspec_jobs.cli.app import run
from tests.e2e.test_podman import (
    CANNOT_START,
    IMAGE,
    PULLED_AGAIN,
    broken_image,
    podman as podman,
    with_entrypoint,
)
from tests.support import ends
from tests.support.aws.emulated_account import (
    PROFILE,
    REGION,
    Capture,
    await_job,
    ended,
    jobs,
    write,
)
from tests.support.profiles import own_profile

pytestmark = [pytest.mark.slow, pytest.mark.podman]


@pytest.fixture
def region(
    podman: dict[str, str], objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Region]:
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(quiet_s=0.2))
    found = Region(tmp_path / "region", REGION, objects, engine="podman", terminate_grace_s=2.0)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    settings: dict[str, Any] = {**PROFILE, "image": IMAGE, "prefix": tmp_path.name}
    own_profile().write_text(json.dumps({"providers": {"aws-batch": settings}}))
    yield found
    found.close()


def test_folders_come_to_their_places_and_outputs_come_back(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x.txt").write_text("here\n")
    job = write(
        "cat /job/code/x.txt; mkdir -p /job/out/deep; cp /job/code/x.txt /job/out/deep; exit 9",
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "out", "path": "/job/out"}],
    )

    assert run(["apply", job]) == 1

    captured = capsys.readouterr()
    assert captured.out == "here\n"
    assert "exited with code 9" in captured.err
    assert run(["fetch", "job", "got"]) == 0
    assert (tmp_path / "got" / "out" / "deep" / "x.txt").read_text() == "here\n"


def test_a_job_that_needs_more_memory_is_told_to_ask_for_more(
    region: Region, capsys: Capture
) -> None:
    job = write("exec python3 -c 'print(len(bytearray(300 << 20)))'", cluster={"memory": "128MiB"})

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("failed", 137)
    assert "raise cluster.memory" in found["reason"]


def test_an_image_that_is_not_there_is_said_to_be_the_reason(
    region: Region, capsys: Capture
) -> None:
    found = ended(capsys, write("echo", container={"image": "127.0.0.1:9/no/such:1"}))

    assert found["state"] == "failed"
    assert "the image could not be pulled" in found["reason"]


@pytest.mark.matrix
def test_a_program_that_needs_more_memory_ends_as_recorded(region: Region, capsys: Capture) -> None:
    more = {
        "run": "exec python3 -c 'print(len(bytearray(300 << 20)))'",
        "cluster": {"memory": "128MiB"},
    }

    ends.check("aws-batch", {"program-memory": failed(capsys, "program-memory", **more)})


@pytest.mark.matrix
@pytest.mark.parametrize("end", CANNOT_START)
def test_a_job_whose_image_cannot_start_ends_as_recorded(
    region: Region, tmp_path: Path, capsys: Capture, end: str
) -> None:
    image = broken_image(end, "registry.example/broken:1", tmp_path)

    ends.check("aws-batch", {end: failed(capsys, end, container={"image": image})})


@pytest.mark.matrix
def test_a_rule_has_an_image_be_pulled_again(region: Region, capsys: Capture) -> None:
    found = failed(capsys, "rule-image", **PULLED_AGAIN)

    ends.check("aws-batch-rules", {"rule-image": found})


def failed(capsys: Capture, end: str, **fields: Any) -> Any:
    """Give what the table of ends would say of a job that fails."""
    Path("job.yaml").write_text(json.dumps(ends.spec("aws-batch", [end], timeout="10m", **fields)))
    assert run(["apply", "job.yaml"]) == 1
    capsys.readouterr()
    run(["status", "job", "--json"])
    return ends.rows(json.loads(capsys.readouterr().out), [end])[end]


@pytest.mark.matrix
def test_an_agent_that_is_killed_in_its_container_has_another_attempt(
    region: Region, capsys: Capture
) -> None:
    """It is not the first process there, which would end with the container."""
    (row,) = failed(capsys, "agent")

    assert row["attempts"] == [[137, "failed"]] * ends.ATTEMPTS


def test_cancel_ends_the_container(region: Region) -> None:
    run(["apply", write("exec sleep 60"), "--detach"])
    await_job(region)

    assert run(["cancel", "job"]) == 0

    assert not any(job["running"] for job in jobs(region))
    line = ["podman", "ps", "--quiet"]
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout == ""


SWALLOWS, HIDES = ["/bin/sh", "-c"], ["/bin/sh", "-c", '"$@" || true', "sh"]
PASSES = ["/bin/sh", "-c", 'exec "$@"', "sh"]


@pytest.mark.parametrize(
    "entrypoint,code,said",
    [
        (SWALLOWS, None, "ENTRYPOINT did not pass the command on"),
        pytest.param(
            ["/bin/echo"],
            None,
            "ENTRYPOINT did not pass the command on",
            marks=pytest.mark.matrix,
        ),
        (HIDES, 3, "exited with code 3 (AWS Batch reports success"),
        (PASSES, 3, "exited with code 3"),
    ],
)
def test_no_entrypoint_of_an_image_makes_up_a_success(
    entrypoint: list[str], code: int | None, said: str, region: Region, capsys: Capture
) -> None:
    """AWS Batch cannot replace it."""
    image = with_entrypoint("registry.example/entry:1", entrypoint)

    found = ended(capsys, write("exit 3", container={"image": image}))

    assert (found["state"], found["exit_code"]) == ("failed", code)
    assert said in found["reason"]


def test_a_task_of_a_sweep_whose_entrypoint_swallows_it_has_failed(
    region: Region, capsys: Capture
) -> None:
    image = with_entrypoint("registry.example/entry:1", SWALLOWS)
    job = write("true", container={"image": image}, sweep={"n": "1..2"})

    found = ended(capsys, job)

    assert found["state"] == "failed"
    assert "ENTRYPOINT did not pass the command on" in found["reason"]
