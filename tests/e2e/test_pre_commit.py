"""The pre-commit hook, as strangers use it: from a repository, by the real pre-commit."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.requirements import need
from tests.support.root import ROOT

pytestmark = pytest.mark.slow

GOOD = """\
apiVersion: runspec/v1
name: good
provider: local
command: [echo, hi]
"""
BAD = GOOD.replace("name: good", "name: bad") + "cluster: {ndoes: 2}\n"


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    command = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def committed(folder: Path) -> str:
    """Make *folder* a repository of all it holds; give its commit."""
    git(folder, "init", "--quiet")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "all")
    return git(folder, "rev-parse", "HEAD").strip()


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A repository with this checkout as it is, committed or not, and its commit."""
    need("git")
    copy = tmp_path_factory.mktemp("runspec")
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    for name in listed:
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    return copy, committed(copy)


@pytest.fixture(scope="module")
def pre_commit_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pre-commit")


@pytest.fixture
def user(
    tmp_path: Path,
    hook: tuple[Path, str],
    pre_commit_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A user's repository that has the hook in its configuration."""
    monkeypatch.setenv("PRE_COMMIT_HOME", str(pre_commit_home))
    repository, commit = hook
    (tmp_path / ".pre-commit-config.yaml").write_text(
        f"repos: [{{repo: {repository}, rev: {commit}, hooks: [{{id: runspec-validate}}]}}]\n"
    )
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    return tmp_path


def run(user: Path) -> subprocess.CompletedProcess[str]:
    committed(user)
    command = ["pre-commit", "run", "--all-files", "--color=never", "--verbose"]
    return subprocess.run(command, cwd=user, check=False, capture_output=True, text=True)


def test_a_good_spec_passes(user: Path) -> None:
    (user / "good.job.yaml").write_text(GOOD)

    ran = run(user)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Passed" in ran.stdout


def test_a_bad_spec_stops_the_commit_and_is_told_with_its_place(user: Path) -> None:
    (user / "jobs").mkdir()
    (user / "jobs" / "bad.yaml").write_text(BAD)
    (user / "good.job.yaml").write_text(GOOD)

    ran = run(user)

    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "jobs/bad.yaml:5:11: " in ran.stdout
    assert "ndoes" in ran.stdout
    assert "good.job.yaml:" not in ran.stdout


def test_the_hook_installs_the_core_and_nothing_else(user: Path, pre_commit_home: Path) -> None:
    (user / "job.yaml").write_text(GOOD)

    run(user)

    found = pre_commit_home.glob("repo*/py_env*/lib/python*/site-packages/*.dist-info")
    names = {canonicalize_name(d.name.split("-")[0].replace("_", "-")) for d in found}
    assert names - {"pip", "setuptools", "wheel"} == core()


def core() -> set[str]:
    """The project, what it needs without extras, and what that needs, as installed here."""
    known: set[str] = set()
    waiting = ["runspec-jobs"]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in known:
            continue
        known.add(name)
        for text in importlib.metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return known


def test_the_core_is_small() -> None:
    """Guard of the guard: no SDK and no builder is part of what the hook may install."""
    assert core().isdisjoint({"boto3", "azure-core", "uv", "moto", "torch"})
