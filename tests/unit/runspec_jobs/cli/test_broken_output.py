"""Standard output that is full or closed is an error with its exit code, and no bug."""

from __future__ import annotations

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
]


def started(words: list[str], stdout: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "runspec_jobs", *words]
    return subprocess.run(line, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)  # type: ignore[call-overload, no-any-return]  # a file


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


@pytest.mark.process
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_reader_that_has_gone_is_no_error(words: list[str]) -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as reader:
        reader.wait()
        done = started(words, reader.stdin)

    nothing_printed = words == ["list"]
    assert done.returncode == (0 if nothing_printed else 141)
    assert nothing_printed or done.stderr == ""
