"""A torchrun that is there before the first generation of its node: another one would import torch while all wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = """
import os, sys, time
from runspec_inside import process
from runspec_inside.elastic.engine import Torchrun, Turn

folder, program = sys.argv[1:]
engine = Torchrun(["sh", "-c", program, "torchrun", folder], None, 1.0, folder, 1)
env = {**os.environ, "RUNSPEC_HOST": "127.0.0.1"}
engine.prepare(env)
first = engine.child.pid
while not os.path.exists(os.path.join(folder, "begun")):
    time.sleep(0.01)
if "exit" in program:
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
engine.start(Turn(1, 0, ["127.0.0.1"], 4711), env)
print(engine.child.pid == first, engine.look())
engine.kill()
"""
STAYS = ': >"$1/begun"; exec sleep 60'
ENDS_ONCE = '[ -e "$1/begun" ] && exec sleep 60; : >"$1/begun"; exit 1'


@pytest.mark.parametrize(("program", "same"), [(STAYS, True), (ENDS_ONCE, False)])
def test_a_generation_begins_with_the_torchrun_that_waits(
    tmp_path: Path, program: str, same: bool
) -> None:
    """One that has ended meanwhile, as by a signal that was passed on, is no failure: there is another."""
    line = [sys.executable, "-c", DRIVER, str(tmp_path), program]

    done = subprocess.run(line, capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr) == (f"{same} None\n", "")
