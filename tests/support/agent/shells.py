"""inside.sh under every shell it must run in, in both ways it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from runspec_jobs.provider.payload import strip_inside_sh
from tests.support.root import ROOT

FILE = ROOT / "runner/runspec_agent/inside.sh"
SHELLS = {"dash": ("dash",), "bash": ("bash",), "busybox": ("busybox", "sh")}
CALLS = [(shell, form) for shell in SHELLS for form in ("file", "text")]

every_shell = pytest.mark.parametrize("shell", SHELLS)
every_call = pytest.mark.parametrize("shell, form", CALLS)

Word = str | bytes


def line(shell: str, form: str, words: Sequence[Word]) -> list[Word]:
    """Give the argv that runs inside.sh with *words*; a shell that is not here is a failure."""
    program = shutil.which(SHELLS[shell][0])
    assert program is not None, f"{shell} is needed: install it"
    how = (str(FILE),) if form == "file" else ("-c", strip_inside_sh(), "inside")
    return [program, *SHELLS[shell][1:], *how, *words]


def environment(extra: Mapping[str, Word]) -> dict[str, Word]:
    return {"PATH": os.environ["PATH"], **extra}


def run(
    shell: str, form: str, words: Sequence[Word], **extra: Word
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        line(shell, form, words),
        env=environment(extra),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def start(shell: str, form: str, words: Sequence[Word], **extra: Word) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        line(shell, form, words),
        env=environment(extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def program(folder: Path, name: str, script: str) -> Path:
    """Put a shell script called *name* into *folder*."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
