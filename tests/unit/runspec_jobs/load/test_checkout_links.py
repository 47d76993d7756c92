"""Links and paths of a checkout lead neither what is read nor what is written out of it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from runspec_jobs.api.convert import write_files
from runspec_jobs.cli.app import run
from runspec_jobs.engine.outputs.layout import PLAIN, choose_path
from runspec_jobs.errors import Conflict, UsageError
from runspec_jobs.provider import OutputFile, paths

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\ncommand: [echo]\n"
REFUSED = UsageError.exit_code
TOKEN = "not-for-a-job"
THEIRS = '{"properties": {"nodeCount": 1, "customToolkitSettings": {"commandLine": "echo"}}}'


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "checkout"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of the user's, with a word of a secret's shape in it."""
    path = tmp_path / "mine"
    path.write_text(TOKEN)
    return path


def plan(checkout: Path, text: str) -> int:
    (checkout / "job.yaml").write_text(HEAD + text)
    return run(["plan", str(checkout / "job.yaml")])


@pytest.mark.parametrize("named", ["{mine}", "../mine", "link", "/proc/self/environ", "/dev/zero"])
def test_no_file_outside_of_a_checkout_is_read_for_its_requirements(
    checkout: Path,
    mine: Path,
    named: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUNSPEC_TEST_TOKEN", TOKEN)
    (checkout / "link").symlink_to(mine)

    assert plan(checkout, f"container: {{requirements: '{named.format(mine=mine)}'}}\n") == REFUSED

    said = capsys.readouterr()
    assert TOKEN not in said.out + said.err
    assert f"is a file outside of {checkout}" in said.err


def test_requirements_may_lie_anywhere_in_the_checkout(checkout: Path) -> None:
    (checkout / "needs.txt").write_text("six\n")
    (checkout / "link.txt").symlink_to("needs.txt")
    (checkout / "jobs").mkdir()

    assert plan(checkout / "jobs", "container: {requirements: ../link.txt}\n") == 0


def test_requirements_that_are_no_file_or_too_large_are_refused(checkout: Path) -> None:
    os.mkfifo(checkout / "pipe")
    (checkout / "large").write_text("#" * (1 << 21))

    assert plan(checkout, "container: {requirements: pipe}\n") == REFUSED
    assert plan(checkout, "container: {requirements: large}\n") == REFUSED


@pytest.mark.parametrize("source", ["~/.kube", "./data", "~/.kube/cache"])
def test_no_folder_of_secrets_is_mounted(
    checkout: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kube = Path.home() / ".kube"
    (kube / "cache").mkdir(parents=True)
    (kube / "cache" / "config").write_text("token")
    (checkout / "data").symlink_to(kube)

    assert plan(checkout, f"mounts: [{{name: m, source: {source}, target: /m}}]\n") == REFUSED

    assert "these look like secrets" in capsys.readouterr().err


def test_a_link_that_leads_a_mount_elsewhere_is_told_of(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    papers, own = tmp_path / "papers", checkout / "own"
    papers.mkdir()
    own.mkdir()
    (checkout / "data").symlink_to(papers)
    (checkout / "near").symlink_to(own)

    assert plan(checkout, "mounts: [{name: m, source: ./data, target: /m}]\n") == 0
    assert f"note: mounts[0].source: ./data is a link to {papers}" in capsys.readouterr().err
    assert plan(checkout, "mounts: [{name: m, source: ./near, target: /m}]\n") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", [paths.PROFILE, "job.yaml"])
def test_import_writes_through_no_link(checkout: Path, name: str) -> None:
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "runspec" / "profile.yaml"
    own.parent.mkdir(parents=True)
    (checkout / name).symlink_to(own)
    (checkout / "their.json").write_text(THEIRS)

    assert run(["import", "their.json", "--to", "."]) == Conflict.exit_code

    assert not own.exists()


def test_init_writes_through_no_link(checkout: Path, tmp_path: Path, mine: Path) -> None:
    (checkout / ".runspec").mkdir()
    (checkout / ".runspec" / "job.schema.json").symlink_to(mine)
    (checkout / paths.PROFILE).symlink_to(tmp_path / "elsewhere")

    assert run(["init", "--provider", "slurm"]) == REFUSED

    assert mine.read_text() == TOKEN
    assert not (tmp_path / "elsewhere").exists()


def test_export_replaces_a_link(checkout: Path, mine: Path) -> None:
    for name in ("job.json", ".job.json.new"):
        (checkout / name).symlink_to(mine)

    write_files(checkout, {"job.json": "{}"}, over=True)

    assert mine.read_text() == TOKEN
    assert (checkout / "job.json").read_text() == "{}"


def test_fetch_follows_no_link_in_the_folder(checkout: Path, tmp_path: Path) -> None:
    out = checkout / "out"
    out.mkdir()
    (out / "model").symlink_to(tmp_path)
    file = OutputFile("model", 0, 0, "x/authorized_keys", 0, io.BytesIO)

    with pytest.raises(Conflict, match="through a symbolic link"):
        choose_path(out, file, PLAIN)
