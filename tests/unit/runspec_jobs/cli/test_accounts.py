"""What `setup` and `policy --setup` refuse on the command line, and that `init` names `setup`."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_jobs.api import profiles
from runspec_jobs.api.profiles import Made, Preview
from runspec_jobs.cli.app import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["setup", "aws-batch", "--with-data"], "--with-data can only be used with --undo"),
        (["setup", "aws-batch", "--undo", "--export", "a"], "--export"),
        (["setup", "aws-batch", "--export", "a", "--json"], "--json cannot be used with --export"),
        (["setup", "aws-batch", "--undo", "--yes"], "no setup of aws-batch is on record"),
        (["policy", "--set", "a=b"], "--set can only be used with --setup"),
        (["policy", "--job", "--setup", "aws-batch"], "--setup"),
        (["setup", "aws-batch", "--set", "bucket=UPPER"], "bucket"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_wrong_command_line_is_refused(words: list[str], said: str, capsys: Capture) -> None:
    assert run(words) == 2

    assert said in capsys.readouterr().err


def test_a_provider_that_needs_no_account_cannot_be_set_up(capsys: Capture) -> None:
    assert run(["setup", "local"]) == 69

    assert "'local' has nothing to set up" in capsys.readouterr().err


@pytest.mark.parametrize(("provider", "named"), [("aws-batch", True), ("slurm", False)])
def test_init_names_setup_where_there_is_one(provider: str, named: bool, capsys: Capture) -> None:
    assert run(["init", "--provider", provider]) == 0

    assert (f"runspec setup {provider}" in capsys.readouterr().err) is named


@pytest.mark.parametrize("provider", ["aws-batch", "azure-batch"])
def test_rights_of_a_setup_are_printed_without_a_login(provider: str, capsys: Capture) -> None:
    assert run(["policy", "--setup", provider]) == 0

    assert '"Action' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("has_spec", "verb"), [(True, "apply"), (False, "init --provider aws-batch")]
)
def test_a_setup_names_what_is_typed_next(
    folder: Path,
    has_spec: bool,
    verb: str,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Made(Preview("aws-batch", "here", (), (), ()), {}, folder / "profile.yaml", True)
    monkeypatch.setattr(profiles, "set_up", lambda *given, **more: made)
    if has_spec:
        (folder / "job.yaml").write_text("")

    assert run(["setup", "aws-batch"]) == 0

    assert f"next: runspec {verb} job.yaml" in capsys.readouterr().err
