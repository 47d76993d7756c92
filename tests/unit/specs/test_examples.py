"""What the examples do on machines that are not as usual: a user who is root, three processes for four shards."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.root import ROOT

pytestmark = pytest.mark.process


@pytest.mark.parametrize(("uid", "flags"), [(0, ["--allow-root"]), (1000, [])])
def test_the_notebook_starts_for_root_as_for_others(
    uid: int, flags: list[str], tmp_path: Path
) -> None:
    text = yaml.safe_load((ROOT / "specs/parallelcluster/notebook.yaml").read_text())["run"]
    for name, said in {"id": str(uid), "jupyter": "$*"}.items():
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{said}"\n')
        (tmp_path / name).chmod(0o755)

    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RUNSPEC_HOST": "host"}
    script = text.replace("${mounts.all}", "/job/all")
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=True)

    wanted = "lab --no-browser --ip host --port 8888 --notebook-dir /job/all"
    assert done.stdout.split() == [*wanted.split(), *flags]


def test_three_processes_of_the_horovod_example_are_told_how_many_may_share_its_shards() -> None:
    code = (
        "import sys, types; sys.modules['numpy'] = types.SimpleNamespace(ndarray=0); import shards"
    )
    line = [sys.executable, "-c", f"{code}; shards.of_process(None, 0, 3)"]

    done = subprocess.run(line, cwd=ROOT / "specs/horovod", capture_output=True, text=True)

    assert done.returncode == 1
    assert re.search("4 shards cannot be shared by 3 processes: start 1, 2 or 4", done.stderr)
