"""A state folder that cannot be read, written or locked is an error with a way out; it is no bug, and no outage."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.load import registry
from tests.support.requirements import need_root

OTHER = 23456  # a user without an entry in the passwd database
JOB = b"apiVersion: runspec/v1\nname: k\nprovider: local\nrun: echo hi\n"
VERBS = [
    ["list"],
    ["status", "x"],
    ["logs", "x"],
    ["fetch", "x"],
    ["report", "x"],
    ["cancel", "x"],
    ["destroy", "x"],
    ["destroy", "--ended"],
    ["destroy", "--shared", "--yes"],
    ["cost"],
    ["apply", "job.yaml"],
    ["trust", "runspec-profile.yaml"],
]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder that every user can read, with a job file; the state is in its folder `state`."""
    path = Path(tempfile.mkdtemp(prefix="runspec-test-"))
    path.chmod(0o755)
    (path / "job.yaml").write_bytes(JOB)
    (path / "runspec-profile.yaml").write_text("providers: {}\n")
    monkeypatch.chdir(path)
    monkeypatch.setenv("RUNSPEC_HOME", str(path / "state"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def as_other_user() -> Iterator[None]:
    need_root()
    registry.load("local")  # import it: the other user may not read Python's own folder
    import runspec_local.client  # noqa: F401

    os.seteuid(OTHER)
    yield
    os.seteuid(0)


@pytest.fixture
def closed(place: Path) -> Path:
    (place / "state" / "runs").mkdir(parents=True)
    (place / "state").chmod(0o700)
    return place / "state"


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_state_folder_of_another_user_is_named_with_a_way_out(
    words: list[str], closed: Path, as_other_user: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(words)

    told = capsys.readouterr().err
    assert code == 69, told
    assert str(closed) in told and "permission denied" in told
    assert "set RUNSPEC_HOME to a folder that you may read and write" in told
    assert f"sudo chown -R {OTHER} {closed}" in told


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_state_folder_that_is_a_file_is_told_to_the_user(
    words: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "state").write_text("")

    code = run(words)

    told = capsys.readouterr().err
    assert code in (2, 69), told
    assert str(place / "state") in told and "RUNSPEC_HOME" in told


def test_a_record_of_another_user_is_not_called_damaged(
    closed: Path, as_other_user: None, capsys: pytest.CaptureFixture[str]
) -> None:
    os.seteuid(0)
    closed.chmod(0o755)
    (closed / "runs" / "k-abc123").mkdir(mode=0o700)
    os.seteuid(OTHER)

    code = run(["status", "k"])

    told = capsys.readouterr().err
    assert code == 69, told
    assert "permission denied" in told and "chown" in told and "restore" not in told


@pytest.mark.parametrize(
    "number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP], ids=errno.errorcode.get
)
def test_a_file_system_without_locks_is_named_with_a_way_out(
    number: int,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(fcntl, "fcntl", refuse)

    code = run(["apply", "job.yaml"])

    told = capsys.readouterr().err
    assert code == 69, told
    assert f"cannot lock {place / 'state'}" in told
    assert "set RUNSPEC_HOME to a folder on a disk of this machine" in told


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO], ids=errno.errorcode.get)
def test_a_state_folder_that_cannot_be_written_is_named_with_a_way_out(
    number: int,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (place / "state").mkdir()
    mkdir = os.mkdir

    def refuse(path: str | Path, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if str(place / "state") in str(path):
            raise OSError(number, os.strerror(number), str(path))
        mkdir(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", refuse)

    code = run(["apply", "job.yaml"])

    told = capsys.readouterr().err
    assert code == 69, told
    assert "RUNSPEC_HOME to a folder" in told and str(place / "state") in told


def test_a_user_without_a_home_folder_is_told_to_name_one(
    place: Path,
    as_other_user: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RUNSPEC_HOME", "HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: OTHER)

    code = run(["list"])

    told = capsys.readouterr().err
    assert code == 2, told
    assert "HOME is not set" in told and "set HOME" in told
