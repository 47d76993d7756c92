"""Which processes of this machine count as supervisors of runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runspec_local.supervisor import process

# It says when it runs, because until then its command line is that of the test.
WAITS = "import sys; print(flush=True); sys.stdin.read()"


@pytest.mark.process
def test_a_process_of_another_user_is_no_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [sys.executable, "-IS", "-c", WAITS, process.SUPERVISOR.decode(), str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        seen = tmp_path in process.supervised()
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

        assert seen
        assert tmp_path not in process.supervised()
        assert process.supervisor_in(tmp_path) is None
