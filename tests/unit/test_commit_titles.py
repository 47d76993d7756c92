"""Titles of commits are short enough for `git log --oneline` in a terminal of 80 columns."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.requirements import need
from tests.support.root import ROOT

LONGEST = 60
# Titles before this commit may be longer. A shallow clone that lacks it holds later commits only.
SINCE = "4dec26fd29e626418780b23495d661e530d06235"


def read_titles(checkout: Path) -> list[str]:
    """Return the titles of the commits in *checkout* after SINCE, without those of merges."""
    known = run_git(checkout, "cat-file", "-e", f"{SINCE}^{{commit}}").returncode == 0
    commits = f"{SINCE}..HEAD" if known else "HEAD"
    log = run_git(checkout, "log", "--no-merges", "--format=%s", commits)
    log.check_returncode()
    return log.stdout.splitlines()


def run_git(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    need("git")
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def find_long(titles: list[str]) -> list[str]:
    return [title for title in titles if len(title) > LONGEST]


@pytest.mark.process
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout of git")
def test_no_title_of_a_commit_is_longer_than_60_characters() -> None:
    assert find_long(read_titles(ROOT)) == []


@pytest.mark.process
def test_a_clone_without_the_first_commit_reads_all_titles(tmp_path: Path) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    run_git(tmp_path, "init", "-q").check_returncode()
    for title in ("a" * LONGEST, "b" * (LONGEST + 1)):
        made = run_git(tmp_path, *author, "commit", "-q", "--allow-empty", "-m", title)
        made.check_returncode()

    assert find_long(read_titles(tmp_path)) == ["b" * (LONGEST + 1)]
