"""What will stop a job is told before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runspec_parallelcluster import PROVIDER
from tests.support.slurm import fake_pcluster
from tests.support.slurm.parallelcluster_specs import options

pytestmark = pytest.mark.process


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = fake_pcluster.install(tmp_path / "programs")
    (folder / "node").write_text("#!/bin/sh\n")
    (folder / "node").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def found(**settings: Any) -> dict[str, bool]:
    return {one.what: one.ok for one in PROVIDER.examine(options(**settings))}


def test_where_all_is_there_all_is_well(programs: Path) -> None:
    said = found(cluster="training")

    assert all(said.values())
    assert "the account answers in us-east-1; there is no training yet" in said


def test_a_program_that_is_missing_is_named(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    said = found()

    assert said["node is not installed"] is False and said["ssh is not installed"] is False
    assert any("installs aws-parallelcluster" in what for what in said)


def test_a_key_that_is_not_there_is_told(programs: Path) -> None:
    assert found(ssh_key="/nowhere/key")["the key /nowhere/key does not exist"] is False


def test_credentials_that_are_refused_are_told(programs: Path) -> None:
    (programs / "pcluster").write_text('#!/bin/sh\necho \'{"message": "ExpiredToken"}\'; exit 1\n')

    assert found()["pcluster describe-cluster: ExpiredToken"] is False
