"""Workers that are forks of a process with the program's imports are what new processes would be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base.process import reap
from runspec_agent.elastic import warm
from runspec_agent.elastic.warm import Warm, is_python

WAIT_S = 60.0
FRAMEWORK = "import os\nPID = os.getpid()\n"
PROGRAM = """\
#!/usr/bin/env python
import json, os, signal, sys
import helper, torch
own = sorted(name for name in os.environ if name not in ("_", "SHLVL", "PWD", "OLDPWD"))
print(json.dumps({
    "name": __name__, "file": globals().get("__file__"), "argv": sys.argv, "path": sys.path[:3],
    "env": {name: os.environ[name] for name in own}, "cwd": os.getcwd(), "flags": list(sys.flags),
    "leads": os.getsid(0) == os.getpid(), "executable": sys.executable, "finders": len(sys.meta_path),
    "sitecustomize": sorted(vars(sys.modules.get("sitecustomize", os)))[:3],
    "handlers": [str(signal.getsignal(n)) for n in (2, 10, 15)],
    "comm": open("/proc/self/comm").read(), "warm": torch.PID != os.getpid(),
}), flush=True)
print("to stderr", file=sys.stderr, flush=True)
exec(sys.stdin.readline())
"""


class Node:
    """The workers of one program, one after the other."""

    def __init__(self, folder: Path, argv: list[str]) -> None:
        self.code = folder / "code"
        (folder / "lib").mkdir()
        (folder / "bin").mkdir()
        (folder / "lib" / "torch.py").write_text(FRAMEWORK)
        self.code.mkdir()
        (self.code / "helper.py").write_text("")
        (self.code / "train.py").write_text(PROGRAM)
        (self.code / "train.py").chmod(0o755)
        (folder / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        self.env = {"PATH": path, "PYTHONPATH": str(folder / "lib"), "HOME": str(folder)}
        self.workers: list[subprocess.Popen[str]] = []
        start = ["sh", "-c", 'exec "$@"', "sh"]
        self.warm = Warm(str(folder / "warm"), start, argv, str(self.code))

    def begin(self, **more: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        worker = subprocess.Popen(
            self.warm.words(),
            env={**self.env, **more},
            cwd=self.code,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        )
        self.workers.append(worker)
        return worker

    def run(self, then: str = "", **more: str) -> tuple[dict[str, Any], str, int]:
        """Run a worker to its end; give what it has said of itself, its errors and its exit code."""
        worker = self.begin(**more)
        out, errors = worker.communicate(then + "\n", WAIT_S)
        return json.loads(out), errors, worker.returncode

    def learn(self) -> list[str]:
        """Run the first worker, and wait until the process that others are forked from is ready, if there is one."""
        self.run(RANK="0")
        names, until = self.warm.observed(), time.monotonic() + 3 * warm.QUIET_S
        while not names and time.monotonic() < until:
            time.sleep(0.01)
            names = self.warm.observed()
        self.warm.start(names, self.env)
        while not self.warm.is_ready():
            time.sleep(0.01)
        return names

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.communicate()
        child = self.warm.child
        if child is not None:
            child.kill()
            while child.code is None:
                reap((child,))


@pytest.fixture
def node(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Node]:
    monkeypatch.setattr(warm, "QUIET_S", 0.1)
    made = Node(tmp_path, getattr(request, "param", ["python", "train.py"]))
    yield made
    made.close()


COMMANDS = [
    ["python", "train.py", "--out", "two words", "ü"],
    ["python", "-u", "-O", "train.py"],
    ["python", "-m", "train", "-x"],
    ["./train.py", "x"],
]


@pytest.mark.process
@pytest.mark.parametrize("node", COMMANDS, indirect=True, ids=" ".join)
def test_a_fork_is_what_a_new_process_is(node: Node) -> None:
    """Its arguments, names, variables, folder, standard streams, handlers of signals and exit code."""
    new = node.run("sys.exit(7)", RANK="3", RUNSPEC_GENERATION="2")
    node.learn()

    fork = node.run("sys.exit(7)", RANK="3", RUNSPEC_GENERATION="2")

    assert fork[0].pop("warm") and not new[0].pop("warm")
    new[0]["finders"] -= 1  # the first worker is observed
    assert fork[0] == new[0]
    assert fork[1:] == new[1:]


@pytest.mark.process
def test_forks_are_signalled_and_end_like_new_processes(node: Node) -> None:
    """They are killed with the process that was started for them, and by nothing else."""
    node.learn()
    told = node.begin()
    killed = node.begin()
    lost = node.begin()
    for worker in (told, killed, lost):
        assert worker.stdin is not None and worker.stdout is not None
        assert json.loads(worker.stdout.readline())["warm"]
        worker.stdin.write("signal.signal(15, lambda *_: sys.exit(143)); print(1, flush=True);")
        worker.stdin.write("os.kill(os.getpid(), 9) if sys.stdin.readline() else signal.pause()\n")
        worker.stdin.flush()
        worker.stdout.readline()
    told.terminate()
    assert killed.stdin is not None
    killed.stdin.write("\n")
    killed.stdin.flush()
    lost.kill()

    assert told.wait(WAIT_S) == 143
    assert killed.wait(WAIT_S) == -signal.SIGKILL
    assert lost.stdout is not None and lost.stdout.read() == ""  # its fork has ended, too


def cold(node: Node, **more: str) -> bool:
    found, _, code = node.run(**more)
    assert code == 0
    return not found["warm"]


@pytest.mark.process
def test_a_worker_with_another_environment_is_a_new_process(node: Node) -> None:
    """Frameworks read variables when they are imported; those that tell workers from each other are not read then."""
    node.learn()

    assert cold(node, OMP_NUM_THREADS="3")
    assert not cold(node, LOCAL_RANK="1", MASTER_PORT="1", TORCHELASTIC_RUN_ID="r")


SPOILS: Mapping[str, tuple[str, str]] = {
    "changes its environment first": ("code/helper.py", "import os; os.environ['X'] = '1'"),
    "has a module of a name that is imported by now": ("code/decimal.py", ""),
    "a thread": (
        "lib/torch.py",
        FRAMEWORK
        + "import threading as t, time; t.Thread(target=time.sleep, args=[9], daemon=True).start()",
    ),
}


@pytest.mark.process
@pytest.mark.parametrize("spoils", SPOILS)
def test_programs_that_a_fork_would_change_get_a_new_process(
    node: Node, tmp_path: Path, spoils: str
) -> None:
    (tmp_path / "lib/torch.py").write_text(FRAMEWORK + "import decimal\n")
    path, text = SPOILS[spoils]
    (tmp_path / path).write_text(text)
    node.learn()

    assert cold(node)


@pytest.mark.process
def test_variables_that_a_framework_sets_are_set_in_forks(node: Node, tmp_path: Path) -> None:
    (tmp_path / "lib/torch.py").write_text(FRAMEWORK + "os.environ['CACHE'] = 'here'\n")
    node.learn()

    found, _, _ = node.run()

    assert (found["warm"], found["env"]["CACHE"]) == (True, "here")


@pytest.mark.process
def test_after_the_end_of_the_process_workers_are_new_ones(node: Node) -> None:
    node.learn()
    assert node.warm.child is not None
    node.warm.child.kill()

    assert cold(node)


def test_other_programs_are_no_python(tmp_path: Path) -> None:
    shutil.copy("/bin/sh", tmp_path / "python")
    python = os.path.realpath(sys.executable)
    (tmp_path / "shell").write_text("#!/bin/sh\n")
    (tmp_path / "isolated").write_text(f"#!{python} -I\n")
    (tmp_path / "script").write_text(f"#!{python}\n")
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    here = str(tmp_path)

    assert is_python([python, "-u", "-Wignore", "train.py"], None)
    assert is_python(["script"], here)
    for words in (
        ["shell"],
        ["isolated"],
        ["none"],
        [python],
        [python, "-I", "x"],
        [python, "-W", "x"],
    ):
        assert not is_python(words, here), words
