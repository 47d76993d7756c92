"""The example of Horovod: its environment, which is built once, and copies of it with the digits prepared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import REAL_CACHE
from tests.support.root import ROOT

EPOCHS = 3


def environment() -> Path:
    """Return the folder of the environment; building it takes minutes, where nobody has done so before."""
    script = ROOT / "specs" / "horovod" / "environment.sh"
    env = {**os.environ, "XDG_CACHE_HOME": REAL_CACHE}
    env["PATH"] = f"{ROOT / '.venv' / 'bin'}:{env['PATH']}"  # uv
    done = subprocess.run(
        ["nice", "sh", str(script)], env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    return Path(done.stdout.strip())


def prepared(folder: Path, made: Path) -> None:
    """Copy the example to *folder* and prepare its data there, without runspec."""
    shutil.copytree(ROOT / "specs" / "horovod", folder / "horovod")
    line = [str(made / "bin" / "python"), "prepare.py", "data"]
    subprocess.run(line, cwd=folder / "horovod", check=True, stdout=subprocess.DEVNULL)


def alone(made: Path, folder: Path, line: Sequence[str]) -> None:
    """Run a program of the example in *folder*, as it runs without runspec."""
    env = {"PATH": f"{made / 'bin'}:{os.defpath}", "OMP_NUM_THREADS": "1", "HOME": str(folder)}
    subprocess.run(line, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)


def spec(made: Path, **changes: Any) -> dict[str, Any]:
    """Return the example as a mapping, with the environment *made* on its PATH, and *changes*."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "specs" / "horovod.yaml").read_text())
    found["env"]["PATH"] = f"{made / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin"
    found["command"] += ["--epochs", str(EPOCHS)]
    return {**found, **changes}


def losses(folder: Path) -> list[float]:
    """Return the losses of the epochs that a run wrote, of which *folder* has the outputs."""
    (path,) = folder.rglob("losses.json")
    found: list[float] = json.loads(path.read_text())
    return found
