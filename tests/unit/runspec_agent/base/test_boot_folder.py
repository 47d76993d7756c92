"""The folder of a job's agent goes when the agent ends, whatever it does at that moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runspec_agent.base import boot_folder

pytestmark = pytest.mark.process

# Python ignores exceptions of a finalizer, and those of handlers that run in it.
IN_A_FINALIZER = """\
import os, signal
from runspec_agent.base import boot_folder

class Late:
    def __del__(self):
        os.kill(os.getpid(), NUMBER)

with boot_folder.folder(os.environ):
    late = Late()
    del late
    print("went on")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_a_finalizer_is_not_lost(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "runspec-job"
    (folder / "inner").mkdir(parents=True)
    source = str(Path(boot_folder.__file__).parents[2])
    env = os.environ | {"RUNSPEC_BOOT": str(folder), "PYTHONPATH": source}

    ended = subprocess.run(
        [sys.executable, "-c", IN_A_FINALIZER.replace("NUMBER", str(int(number)))],
        env=env,
        capture_output=True,
        text=True,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (128 + number, "", "")
    assert not folder.exists()
