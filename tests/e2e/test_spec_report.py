"""The report of the GitHub Action, made in a repository with two commits as the action makes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.requirements import need
from tests.support.root import ROOT

pytestmark = pytest.mark.slow
SPEC = """\
apiVersion: runspec/v1
name: train
provider: aws-batch
cluster: {nodes: 1, cpus: 4}
timeout: 1h
command: [echo, hello]
"""
PROFILE = """\
providers:
  aws-batch:
    region: us-east-1
    bucket: a-bucket-of-mine
    job_role: arn:aws:iam::111122223333:role/job
    instance_role: arn:aws:iam::111122223333:instance-profile/machine
    subnets: [subnet-0a1b2c3d]
    security_groups: [sg-0a1b2c3d]
"""


def git(*words: str) -> None:
    author = ["-c", "user.name=A", "-c", "user.email=a@localhost"]
    subprocess.run(["git", *author, *words], check=True, capture_output=True)


def commit(files: dict[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    git("add", "--all")
    git("commit", "--message", "change")


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("git")
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    git("init", "--initial-branch", "main")
    commit({"jobs/train.yaml": SPEC, "runspec-profile.yaml": PROFILE, "README.md": "a\n"})


def report() -> tuple[int, str]:
    """Run the script as the action does: by its own program, against the commit before."""
    script = str(ROOT / "tools/spec_report.py")
    env = {**os.environ, "GITHUB_ACTIONS": "true"}
    env.pop("RUNSPEC_PROFILE", None)
    command = [sys.executable, script, "HEAD~1", "--to", "../report.md"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, Path("../report.md").read_text()


def test_a_changed_spec_is_reported_with_its_cost_before_and_now() -> None:
    commit({"jobs/train.yaml": SPEC.replace("nodes: 1", "nodes: 8")})

    code, text = report()

    assert code == 0, text
    assert "### `jobs/train.yaml`" in text
    (most,) = [line for line in text.splitlines() if line.startswith("| At most |")]
    before, now = (float(cell.split()[0]) for cell in most.split(" | ")[1:])
    assert 0 < before < now  # perhaps not eight times as much: several nodes get other machines
    assert "-cluster: {nodes: 1, cpus: 4}\n+cluster: {nodes: 8, cpus: 4}" in text
    assert "submit a job of 8 nodes" in text


def test_a_spec_that_is_not_valid_fails_the_check_and_is_named_with_its_line() -> None:
    other = SPEC.replace("train", "other")
    commit({"jobs/train.yaml": SPEC.replace("timeout", "timeuot"), "jobs/other.yaml": other})

    code, text = report()

    assert code == 1
    assert "**Not valid:**" in text and "jobs/train.yaml:5:1" in text


def test_a_pull_request_cannot_choose_the_profile_that_it_is_planned_with() -> None:
    commit({"runspec-profile.yaml": "providers: {aws-batch: {}}\n", "jobs/train.yaml": f"{SPEC}\n"})

    code, text = report()

    assert code == 0
    assert "| At most |" in text


def test_a_spec_without_settings_of_its_provider_is_not_planned_and_no_failure() -> None:
    commit({"jobs/train.yaml": SPEC.replace("aws-batch", "azure-batch")})

    code, text = report()

    assert code == 0
    assert "**Not planned:**" in text


def test_text_of_a_spec_cannot_leave_its_block() -> None:
    commit({"jobs/train.yaml": f"{SPEC}env: {{A: '```` @somebody'}}\n"})

    _, text = report()

    assert "\n`````diff\n" in text


def test_without_a_changed_spec_nothing_is_planned() -> None:
    commit({"README.md": "b\n"})

    assert report() == (0, "<!-- runspec plan -->\n\nNo spec changed.\n")
