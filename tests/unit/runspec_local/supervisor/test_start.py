"""The supervisor starts quickly, because each `apply` on this machine waits for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each of them takes as long to import as the modules of the supervisor take together.
SLOW = ("dataclasses", "hashlib", "inspect", "pydantic", "runpy", "shutil", "socket")


@pytest.mark.process
def test_the_supervisor_imports_no_slow_module() -> None:
    names = f"[name for name in {SLOW!r} if name in sys.modules]"
    program = f"import sys; sys.path[:0] = {sys.path!r}; import runspec_local.supervisor.reaper; print({names})"

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
