"""The commit of a checkout is read from the files of git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runspec_jobs.load.git_commit import commit
from tests.support.requirements import need

pytestmark = pytest.mark.process

MINE = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"]


def git(folder: Path, *words: str) -> str:
    found = subprocess.run(
        ["git", *MINE, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return found.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    need("git")
    found = tmp_path / "repository"
    found.mkdir()
    git(found, "init", "--quiet", "--initial-branch", "main")
    git(found, "commit", "--quiet", "--allow-empty", "--message", "one")
    return found


def head(folder: Path) -> str:
    return git(folder, "rev-parse", "HEAD")


def test_a_branch_and_a_folder_below(repository: Path) -> None:
    (repository / "specs").mkdir()

    assert commit(repository / "specs") == head(repository)
    git(repository, "checkout", "--quiet", "-b", "some/branch")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "two")
    assert commit(repository) == head(repository)


def test_packed_refs_and_a_newer_loose_one(repository: Path) -> None:
    git(repository, "tag", "--annotate", "v1", "--message", "peeled in packed-refs")
    git(repository, "pack-refs", "--all")

    assert not (repository / ".git/refs/heads/main").exists()
    assert commit(repository) == head(repository)
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "two")
    assert commit(repository) == head(repository)


def test_a_detached_head(repository: Path) -> None:
    before = head(repository)
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "two")
    git(repository, "checkout", "--quiet", "--detach", before)

    assert commit(repository) == before


def test_a_worktree_has_a_head_of_its_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "--quiet", "--allow-empty", "--message", "two")

    assert commit(tmp_path / "tree") == head(tmp_path / "tree") != head(repository)
    git(repository, "pack-refs", "--all")
    assert commit(tmp_path / "tree") == head(tmp_path / "tree")


def test_a_submodule_has_a_commit_of_its_own(repository: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    git(whole, "init", "--quiet")
    git(whole, "submodule", "--quiet", "add", str(repository), "part")
    git(whole, "commit", "--quiet", "--message", "with a part")

    assert commit(whole / "part") == head(repository) != head(whole)


def test_no_repository_and_no_commit(tmp_path: Path) -> None:
    need("git")
    assert commit(tmp_path) is None
    git(tmp_path, "init", "--quiet")
    assert commit(tmp_path) is None


@pytest.mark.parametrize(
    "head_text",
    [
        "ref: refs/../../secret",
        "ref: secret",
        "",
        "\xff\x00",
        "ref: refs/heads/.invalid",  # of the reftable format
        "ref: HEAD",
        "0f4455a8",
    ],
)
def test_a_head_that_leads_elsewhere_is_not_followed(tmp_path: Path, head_text: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "secret").write_text("a" * 40)
    (tmp_path / ".git" / "secret").write_text("a" * 40)
    (tmp_path / ".git" / "HEAD").write_bytes(head_text.encode("latin-1"))

    assert commit(tmp_path) is None


def test_refs_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / ".git/refs").mkdir(parents=True)
    for name, to in (("HEAD", "refs/a"), ("refs/a", "refs/b"), ("refs/b", "refs/a")):
        (tmp_path / ".git" / name).write_text(f"ref: {to}\n")

    assert commit(tmp_path) is None
