"""The provider of docs/provider.md works as it stands there: built, installed, run and tested."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.guide_packages import write_package
from tests.support.root import ROOT

pytestmark = pytest.mark.slow

UV = (sys.executable, "-m", "uv")  # the one in this environment
FILES = {"pyproject.toml", "job.yaml", "tests/test_contract.py"} | {
    f"runspec_tiny/{name}.py" for name in ("__init__", "client")
}


def ran(
    *words: str | Path, cwd: Path | None = None, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(path)} if path else None
    return subprocess.run([*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True)


def good(*words: str | Path, cwd: Path | None = None) -> str:
    done = ran(*words, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, as the guide has it."""
    return write_package("runspec-tiny", tmp_path_factory.mktemp("guide") / "runspec-tiny")


@pytest.fixture(scope="module")
def venv(package: Path) -> Path:
    """An environment with this checkout and that package; gives its folder of commands."""
    folder = package.parent / "venv"
    good(*UV, "venv", "--quiet", folder)
    python = folder / "bin" / "python"
    good(*UV, "pip", "install", "--quiet", "--python", python, ROOT, f"{package}[test]")
    return folder / "bin"


def test_the_guide_has_every_file(package: Path) -> None:
    found = {str(p.relative_to(package)) for p in package.rglob("*") if p.is_file()}

    assert found == FILES


def test_the_provider_of_the_guide_is_listed_beside_local(venv: Path) -> None:
    told = json.loads(good(venv / "runspec", "providers", "--json"))
    found = {row["name"]: row for row in told["providers"]}

    assert found["tiny"]["package"] == "runspec-tiny 1.0"
    assert found["tiny"]["works"] and found["local"]["works"]


def test_a_job_is_planned_and_run(venv: Path, package: Path) -> None:
    plan = json.loads(good(venv / "runspec", "plan", "--json", package / "job.yaml"))

    said = good(venv / "runspec", "apply", package / "job.yaml")

    assert [step["do"]["service"] for step in plan["steps"]] == ["tiny"]
    assert re.fullmatch(r"hello from first-\w{6}\n", said)


def test_a_field_that_the_guides_provider_lacks_is_refused_at_its_line(
    venv: Path, tmp_path: Path
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("apiVersion: runspec/v1\nname: a\nprovider: tiny\ncommand: [ls]\ntimeout: 1m\n")

    done = ran(venv / "runspec", "validate", job)

    assert done.returncode == 2
    assert "job.yaml:5:1: timeout: tiny does not support 'timeout'" in done.stderr


def test_the_contract_is_kept(venv: Path, package: Path) -> None:
    said = good(venv / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)

    assert re.search(r"^\d{2,} passed, \d+ skipped", said, re.MULTILINE), said


def test_a_second_package_of_that_name_is_a_conflict_that_names_both(
    venv: Path, package: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / "runspec_again").mkdir(parents=True)
    (other / "runspec_again" / "__init__.py").write_text("PROVIDER = None\n")
    project = (package / "pyproject.toml").read_text()
    project = project.replace("runspec-tiny", "runspec-again").replace("_tiny", "_again")
    (other / "pyproject.toml").write_text(project)
    beside = tmp_path / "beside"
    good(*UV, "pip", "install", "--quiet", "--no-deps", "--target", beside, other)

    done = ran(venv / "runspec", "providers", path=beside)

    assert done.returncode == 4
    assert "two packages have a provider 'tiny'" in done.stderr
    assert "runspec-tiny 1.0" in done.stderr
    assert "runspec-again 1.0" in done.stderr
