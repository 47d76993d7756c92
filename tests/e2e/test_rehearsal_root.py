"""An emulated job has the root folder that its service would give it, and a rehearsal leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from runspec_namespaces import mount_namespace
from tests.support.profiles import own_profile
from tests.support.requirements import lack, need
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if why := mount_namespace.refusal():
        lack(f"a mount namespace: {why}")
    need("azurite", *PROGRAMS)
    monkeypatch.chdir(tmp_path)
    temporary = tempfile.mkdtemp(prefix="t-")  # short, as sockets need
    monkeypatch.setenv("TMPDIR", temporary)
    monkeypatch.setattr(tempfile, "tempdir", None)
    own_profile().write_text("{}")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print('I ran')\n")
    yield tmp_path
    shutil.rmtree(temporary)


def rehearsed(folder: Path, provider: str, **fields: Any) -> int:
    """Rehearse a spec; whatever it does, the machine is afterwards as it was."""
    before = sorted(os.listdir("/"))
    spec = {"apiVersion": "runspec/v1", "name": "absp", "provider": provider, **fields}
    (folder / "job.yaml").write_text(json.dumps(spec))

    code = run(["rehearse", "job.yaml"])

    assert sorted(os.listdir("/")) == before
    assert os.listdir(os.environ["TMPDIR"]) == []
    return code


MOUNT = {"name": "code", "source": "./src", "target": "/job/code"}
OUTPUT = {"name": "out", "path": "/job/out"}


@pytest.mark.parametrize("provider", ["aws-batch", "azure-batch"])
def test_absolute_paths_are_those_of_the_container(
    folder: Path, provider: str, capsys: Capture
) -> None:
    code = rehearsed(
        folder,
        provider,
        container={"image": "busybox:1"},
        mounts=[MOUNT],
        outputs=[OUTPUT],
        run="python3 /job/code/train.py; echo a > /job/out/a; mkdir /elsewhere; cat /job/out/a",
    )

    assert (code, capsys.readouterr().out) == (0, "I ran\na\n")


@pytest.mark.parametrize("provider", ["azure-batch", "slurm", "parallelcluster"])
def test_a_job_on_a_machine_itself_makes_nothing_at_its_root(
    folder: Path, provider: str, capsys: Capture
) -> None:
    """There a user may not, so neither may root in a rehearsal."""
    code = rehearsed(folder, provider, run="mkdir -p /job/out && echo made; exit 0")

    said = capsys.readouterr()
    assert code == 0
    assert "made" not in said.out
    assert "Read-only file system" in said.out + said.err
