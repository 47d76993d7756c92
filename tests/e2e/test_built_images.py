"""Images that jobs on AWS Batch and Azure Batch have built, in a real registry; podman pushes and pulls them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.aws.region import Objects, Region
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_images import image_build
from runspec_jobs.cli.app import run
from tests.e2e.test_podman import IMAGE, podman as podman
from tests.support import open_registry, private_registry
from tests.support.aws.emulated_account import PROFILE, REGION, Capture, calls, ended, write
from tests.support.azure import emulated_account as azure_account
from tests.support.profiles import own_profile
from tests.support.requirements import need

pytestmark = [pytest.mark.slow, pytest.mark.podman]
BUILD = {"container": {"build": {"context": "./image"}}}


@pytest.fixture
def images(tmp_path: Path) -> Iterator[str]:
    need("docker-registry")
    folder = tmp_path / "registry"
    folder.mkdir()
    with open_registry.open_registry(folder) as host:
        yield host


@pytest.fixture
def region(
    images: str,
    podman: dict[str, str],
    objects: Objects,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Region]:
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    login = tmp_path / "login.json"
    open_registry.write_login(images, login)
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(login))
    found = Region(tmp_path / "region", REGION, objects, engine="podman", terminate_grace_s=2.0)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    settings = {**PROFILE, "images": f"{images}/team/jobs", "prefix": tmp_path.name}
    own_profile().write_text(json.dumps({"providers": {"aws-batch": settings}}))
    yield found
    found.close()


@pytest.fixture
def azure(
    images: str, podman: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AzureBatch]:
    need("azurite")
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    open_registry.write_login(images, tmp_path / "login.json")
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "login.json"))
    with Blobs(tmp_path / "blobs") as blobs:
        blobs.make_container(azure_account.CONTAINER)
        for account in azure_account.prepared(blobs, tmp_path, monkeypatch, engine="podman"):
            profile = json.loads(own_profile().read_text())
            profile["providers"]["azure-batch"]["images"] = f"{images}/team/jobs"
            own_profile().write_text(json.dumps(profile))
            yield account


def run_podman(*words: str) -> None:
    subprocess.run(["podman", *words], check=True, capture_output=True)


def context(folder: Path, message: str) -> None:
    (folder / "image").mkdir(exist_ok=True)
    (folder / "image" / "Containerfile").write_text(f"FROM {IMAGE}\nCOPY message /message\n")
    (folder / "image" / "message").write_text(message)


def last_line(capsys: Capture) -> str:
    """Return the last line of the job: those before it are of podman, which pulls the image."""
    capsys.readouterr()
    run(["logs", "job"])
    return capsys.readouterr().out.splitlines()[-1]


def images_of_jobs(region: Region) -> list[str]:
    made = calls(region, "RegisterJobDefinition")
    return [call["params"]["containerProperties"]["image"] for call in made]


def test_a_job_runs_the_image_that_was_pushed_by_its_digest(
    region: Region, images: str, tmp_path: Path, capsys: Capture
) -> None:
    """A context that has not changed is not built again, also by a machine that has never built it."""
    context(tmp_path, "one\n")
    found = [ended(capsys, write("cat /message", **BUILD))]
    first = open_registry.tags(tmp_path / "registry")
    said = [last_line(capsys)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))
        patch.setattr(image_build, "ENGINES", ())
        found.append(ended(capsys, "job.yaml", "--new"))
    context(tmp_path, "two\n")
    found.append(ended(capsys, "job.yaml", "--new"))
    said.append(last_line(capsys))

    assert [one["state"] for one in found] == ["succeeded"] * 3
    assert said == ["one", "two"]
    assert len(first) == 1
    assert len(open_registry.tags(tmp_path / "registry")) == 2
    named = images_of_jobs(region)
    assert len(named) == 2
    for image in named:
        assert re.fullmatch(rf"{images}/team/jobs@sha256:[0-9a-f]{{64}}", image)


def test_a_push_that_was_killed_is_repeated_and_the_password_is_nowhere(
    region: Region, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    context(tmp_path, "one\n")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(image_build, "read_digest", killed)
        run(["apply", write("cat /message", **BUILD)])
    found = ended(capsys, "job.yaml")

    assert found["state"] == "succeeded"
    assert len(open_registry.tags(tmp_path / "registry")) == 1
    holding = private_registry.holding_password(tmp_path)
    assert [path.name for path in holding] == ["login.json"]


def test_a_push_of_another_machine_in_between_changes_no_job(
    region: Region, images: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tag then names what that machine has pushed, and the job the image that was built for it."""
    context(tmp_path, "one\n")
    read = image_build.read_digest

    def overtake(*words: Any) -> str | None:
        name = open_registry.tags(tmp_path / "registry")[0]
        run_podman("tag", IMAGE, f"{images}/team/jobs:{name}")
        run_podman("push", "--tls-verify=false", f"{images}/team/jobs:{name}")
        return read(*words)

    monkeypatch.setattr(image_build, "read_digest", overtake)
    found = ended(capsys, write("cat /message", **BUILD))

    assert (found["state"], last_line(capsys)) == ("succeeded", "one")


def test_a_push_without_a_login_names_the_command_to_log_in(
    region: Region, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    context(tmp_path, "one\n")
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "none.json"))

    assert run(["apply", write("cat /message", **BUILD)]) == 5

    assert "podman login 127.0.0.1" in capsys.readouterr().err


def test_a_rehearsal_pushes_nothing(region: Region, tmp_path: Path, capsys: Capture) -> None:
    context(tmp_path, "one\n")

    assert run(["rehearse", write("cat /message", **BUILD)]) == 2

    assert "a rehearsal builds and pushes no image" in capsys.readouterr().err
    assert open_registry.tags(tmp_path / "registry") == []


def test_a_job_on_azure_batch_runs_the_image_that_was_pushed_by_its_digest(
    azure: AzureBatch, images: str, tmp_path: Path, capsys: Capture
) -> None:
    """Also if the push was killed before its end was noted; a context that has not changed is not built again."""
    context(tmp_path, "one\n")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_build, "read_digest", killed)
        run(["apply", azure_account.write("cat /message", **BUILD)])
    found = [ended(capsys, "job.yaml")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_build, "ENGINES", ())
        found.append(ended(capsys, "job.yaml", "--new"))
    said = [last_line(capsys)]
    context(tmp_path, "two\n")
    found.append(ended(capsys, "job.yaml", "--new"))
    said.append(last_line(capsys))

    assert [one["state"] for one in found] == ["succeeded"] * 3
    assert said == ["one", "two"]
    assert len(open_registry.tags(tmp_path / "registry")) == 2
    made = azure_account.calls(azure, "Task_AddCollection")
    named = [call["body"]["value"][0]["containerSettings"]["imageName"] for call in made]
    assert (named[0] == named[1], len(set(named))) == (True, 2)
    for image in named:
        assert re.fullmatch(rf"{images}/team/jobs@sha256:[0-9a-f]{{64}}", image)
    holding = private_registry.holding_password(tmp_path)
    assert [path.name for path in holding] == ["login.json"]
