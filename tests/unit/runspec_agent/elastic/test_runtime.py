"""A torchrun that is there before the first generation of its node: another one would import torch while all wait."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from runspec_agent.elastic import torch_rendezvous
from runspec_agent.job import bytecode_cache, zipapp_main
from runspec_jobs.provider.payload import pack_agent

BEGIN = """
import os, sys, time
from runspec_agent.base import process
from runspec_agent.elastic.runtime import Torchrun, Turn

folder, program = sys.argv[1:]
engine = Torchrun(["sh", "-c", program, "torchrun", folder], None, 1.0, folder, 1)
env = {**os.environ, "RUNSPEC_HOST": "127.0.0.1"}
engine.prepare(env)
turn = Turn(1, 0, ["127.0.0.1"], 4711)
"""
WAITS = """
first = engine.child.pid
while not os.path.exists(os.path.join(folder, "begun")):
    time.sleep(0.01)
if "exit" in program:
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
engine.start(turn, env)
print(engine.child.pid == first, engine.look())
engine.kill()
"""
LOOKS = """
engine.start(turn, env)
code = None
while code is None:
    code = engine.look()
    time.sleep(0.01)
print(code)
engine.kill()
"""
STOPS_EARLY = """
engine.start(turn, env)
first = engine.child.pid
engine.stop()
print(engine.look(), engine.look())
engine.start(Turn(2, 0, ["127.0.0.1"], 4711), env)
print(engine.child.pid == first)
engine.kill()
"""
GIVES_UP = """
from runspec_agent.elastic import runtime
runtime.LATE_S, engine.grace_s = 0.2, 0.2
engine.start(turn, env)
while not os.path.exists(os.path.join(folder, "begun")):
    time.sleep(0.01)
engine.stop()
code = None
while code is None:
    code = engine.look()
    time.sleep(0.01)
print(code)
"""
STAYS = ': >"$1/begun"; exec sleep 60'
ENDS_ONCE = '[ -e "$1/begun" ] && exec sleep 60; : >"$1/begun"; exit 1'
SAYS = """
until [ -e "$1/view.json" ]; do sleep 0.01; done
echo '{"generation": 1, "met": %s}' >"$1/said"
mv "$1/said" "$1/stopped.json"
exec sleep 60
"""


def drive(then: str, folder: Path, program: str) -> str:
    line = [sys.executable, "-c", BEGIN + then, str(folder), program]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


def test_the_handler_of_torchrun_is_written_by_the_compiled_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace of Slurm has the agent as compiled modules, whose importer is our own."""
    zipapp = tmp_path / "agent.pyz"
    zipapp.write_bytes(pack_agent())
    codes = bytecode_cache.made(str(zipapp), zipapp_main.place(str(zipapp)))
    monkeypatch.setattr(sys, "meta_path", [zipapp_main.Kept(codes, str(zipapp)), *sys.meta_path])
    folder = tmp_path / "handler"
    folder.mkdir()

    with patch.dict(sys.modules):
        for name in [name for name in sys.modules if name.partition(".")[0] == "runspec_agent"]:
            del sys.modules[name]
        compiled = importlib.import_module("runspec_agent.elastic.runtime")
        compiled.Torchrun(["torchrun"], None, 1.0, str(folder), 1)

    source = Path(torch_rendezvous.__file__).read_bytes()
    assert (folder / "runspec_torchrun.py").read_bytes() == source


@pytest.mark.process
@pytest.mark.parametrize(("program", "same"), [(STAYS, True), (ENDS_ONCE, False)])
def test_a_generation_begins_with_the_torchrun_that_waits(
    tmp_path: Path, program: str, same: bool
) -> None:
    """One that has ended meanwhile, as by a signal that was passed on, is no failure: there is another."""
    assert drive(WAITS, tmp_path, program) == f"{same} None\n"


@pytest.mark.process
@pytest.mark.parametrize(("met", "code"), [("true", 1), ("false", 75)])
def test_a_generation_whose_port_was_taken_is_tried_again(
    tmp_path: Path, met: str, code: int
) -> None:
    """Where its workers have ended by themselves, that is a failure of the program."""
    assert drive(LOOKS, tmp_path, SAYS % met) == f"{code}\n"


@pytest.mark.process
def test_a_generation_ends_at_once_while_torchrun_starts(tmp_path: Path) -> None:
    """It has no workers yet, and starts none of a generation that is over: the same torchrun serves the next one."""
    assert drive(STOPS_EARLY, tmp_path, STAYS) == "143 None\nTrue\n"


@pytest.mark.process
def test_a_torchrun_that_stays_after_its_workers_is_killed(tmp_path: Path) -> None:
    """Else its node would hold up all others for ever; for the next generation, there is another one."""
    told = """echo '{"generation": 0, "met": true}' >"$1/stopped.json";"""

    assert drive(GIVES_UP, tmp_path, told + STAYS) == "137\n"
