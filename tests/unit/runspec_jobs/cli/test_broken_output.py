"""Standard output that is full or closed is an error with its exit code, and no bug."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = [
    ["list"],
    ["list", "--json"],
    ["schema"],
    ["providers"],
    ["--help"],
    ["apply", "--help"],
    ["version"],
    ["--version"],
]


def started(words: list[str], stdout: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "runspec_jobs", *words]
    return subprocess.run(line, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)  # type: ignore[call-overload, no-any-return]  # a file


def started_with(closed: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    line = f'exec "$0" -m runspec_jobs "$@" {closed}'
    return subprocess.run(
        ["sh", "-c", line, sys.executable, *words], capture_output=True, text=True, check=False
    )


@pytest.mark.process
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_disk_is_told(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = started(words, full)

    if words == ["list"]:  # without runs it prints to standard error alone
        assert done.returncode == 0
        return
    assert done.stderr == "runspec: cannot write to standard output: no space left on device\n"
    assert done.returncode == 69


@pytest.mark.slow
def test_apply_ends_with_69_if_standard_output_is_full(tmp_path: Path) -> None:
    job = "apiVersion: runspec/v1\nname: full\nprovider: local\nrun: for i in 1 2 3; do echo $i; done\n"
    (tmp_path / "job.yaml").write_text(job)
    with Path("/dev/full").open("w") as full:
        done = started(["apply", str(tmp_path / "job.yaml")], full)

    assert done.returncode == 69
    assert "cannot write to standard output: no space left on device\n" in done.stderr
    assert "hint: the job goes on. follow: runspec logs -f full-" in done.stderr
    assert "service" not in done.stderr


@pytest.mark.slow
def test_saving_the_log_of_an_ended_run_to_a_full_disk_does_not_say_that_it_goes_on(
    tmp_path: Path,
) -> None:
    job = "apiVersion: runspec/v1\nname: over\nprovider: local\nrun: echo 1\n"
    (tmp_path / "job.yaml").write_text(job)
    started(["apply", str(tmp_path / "job.yaml")], subprocess.DEVNULL)

    done = started(["logs", "over", "--save", "/dev/full"], subprocess.PIPE)

    assert done.returncode == 69
    assert "no space left on device" in done.stderr
    assert "goes on" not in done.stderr
    for words in (["logs", "over"], ["logs", "-f", "over"], ["status", "over"]):
        done = started_with(">&-", words)
        said = "runspec: cannot write to standard output: it is closed\n"
        assert (done.returncode, done.stderr.endswith(said)) == (69, True)


@pytest.mark.process
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_reader_that_has_gone_is_no_error(words: list[str]) -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as reader:
        reader.wait()
        done = started(words, reader.stdin)

    nothing_printed = words == ["list"]
    assert done.returncode == (0 if nothing_printed else 141)
    assert nothing_printed or done.stderr == ""


@pytest.mark.process
@pytest.mark.parametrize("words", [*COMMANDS, ["logs", "nosuch"], []], ids=" ".join)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_output_that_is_closed_is_told(words: list[str], closed: str) -> None:
    """Messages do not go to standard output instead, and no file of runspec gets the number of a stream."""
    done = started_with(closed, words)

    said = "runspec: cannot write to standard output: it is closed\n"
    fails = " >&-" in f" {closed}" and words in COMMANDS and words != ["list"]
    assert done.returncode == (69 if fails else 0 if words in COMMANDS else 2)
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr
    assert (said in done.stderr) == (fails and closed == ">&-")
    assert done.stdout == "" or closed == "2>&-"


@pytest.mark.process
def test_messages_that_cannot_be_written_do_not_change_the_exit_code() -> None:
    line = [sys.executable, "-m", "runspec_jobs", "logs", "nosuch", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=full, text=True, check=False)

    assert done.returncode == 2
    assert json.loads(done.stdout)["exit_code"] == 2


@pytest.mark.process
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_utf_8_whatever_the_locale(encoding: str) -> None:
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    line = [sys.executable, "-m", "runspec_jobs", "logs", "n\u00f6\u65e5", "--json"]

    done = subprocess.run(line, capture_output=True, env=env, check=False)

    assert json.loads(done.stdout.decode())["error"] == "there is no run 'n\u00f6\u65e5'"


@pytest.mark.process
def test_a_current_folder_that_was_deleted_is_named(tmp_path: Path) -> None:
    line = 'rmdir "$PWD" && exec "$0" -m runspec_jobs "$@"'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable, "init"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 69
    assert done.stderr.splitlines() == [
        "runspec: the current folder was deleted",
        "runspec:   hint: go to another: cd ..",
    ]
