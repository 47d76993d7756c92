"""Which container engine builds an image."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from runspec_aws.infrastructure import image_build
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

    assert image_build._find_engine() == "docker"


def test_without_an_engine_that_answers_there_is_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(line: list[str], **_: Any) -> Any:
        raise subprocess.TimeoutExpired(line, 60)

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)

    with pytest.raises(Unavailable, match="no container engine works"):
        image_build._find_engine()
