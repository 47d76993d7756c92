"""Which container engine builds an image, and how it gets the login for the push."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runspec_images import image_build
from runspec_images.registry_logins import Login
from runspec_jobs.provider import Unavailable


@pytest.mark.parametrize("error", [subprocess.TimeoutExpired("podman", 60), OSError("exec format")])
def test_an_engine_that_does_not_answer_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def run(line: list[str], **_: Any) -> Any:
        if line[0] == "podman":
            raise error
        return subprocess.CompletedProcess(line, 1 if line[0] == "buildah" else 0)

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)

    assert image_build.find_engine() == "docker"


def test_without_an_engine_that_answers_there_is_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(line: list[str], **_: Any) -> Any:
        raise subprocess.TimeoutExpired(line, 60)

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)

    with pytest.raises(Unavailable, match="no container engine works"):
        image_build.find_engine()


def test_docker_pushes_by_the_service_that_has_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The folder of --config also says which service docker talks to: that of Docker Desktop, or a rootless one."""
    own = tmp_path / "own"
    (own / "contexts/meta").mkdir(parents=True)
    (own / "config.json").write_text(json.dumps({"currentContext": "rootless", "credsStore": "x"}))
    monkeypatch.setenv("DOCKER_CONFIG", str(own))
    login, folder = Login("me", "pw"), tmp_path / "login"

    before, after = image_build.make_login_options("docker", folder, "a.example/b:1", login)

    assert (list(before), list(after)) == (["--config", str(folder)], [])
    content = json.loads((folder / "config.json").read_text())
    assert content == {"auths": {"a.example": {"auth": "bWU6cHc="}}, "currentContext": "rootless"}
    assert (folder / "contexts").resolve() == own / "contexts"
    modes = [path.stat().st_mode & 0o777 for path in (folder, folder / "config.json")]
    assert modes == [0o700, 0o600]


def test_podman_gets_the_login_alone(tmp_path: Path) -> None:
    folder = tmp_path / "login"

    before, after = image_build.make_login_options(
        "podman", folder, "a.example/b", Login("me", "pw")
    )

    assert (list(before), list(after)) == ([], ["--authfile", str(folder / "config.json")])
    assert [path.name for path in folder.iterdir()] == ["config.json"]


DIGESTS = [f"sha256:{one * 64}" for one in "123"]


def test_the_digest_of_a_push_is_what_docker_tells_last(tmp_path: Path) -> None:
    told = [
        f"see digest: {DIGESTS[0]} size: 5 of the layer",
        f"runspec-1: digest: {DIGESTS[1]} size: 528",
        f"runspec-1: digest: {DIGESTS[2]} size: 856",
        "done",
    ]

    assert image_build.read_digest(told, tmp_path / "none") == DIGESTS[2]
    assert image_build.read_digest(told[:1], tmp_path / "none") is None


def test_the_digest_of_a_push_is_what_podman_writes(tmp_path: Path) -> None:
    (tmp_path / "digest").write_text(DIGESTS[0])

    assert image_build.read_digest((), tmp_path / "digest") == DIGESTS[0]
