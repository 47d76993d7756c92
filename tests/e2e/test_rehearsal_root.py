"""An emulated job has the root folder that its service would give it, and a rehearsal leaves nothing behind."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.frame.containers import confinement_notes
from runspec_jobs.cli.app import run
from runspec_namespaces import kernel_support
from tests.support.profiles import own_profile
from tests.support.requirements import lack, need
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if why := kernel_support.refusal():
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


def test_commands_of_an_environment_find_what_lies_beside_them(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    """An environment among temporary files, as where the home is, has libraries beside its commands."""
    environment = tmp_path_factory.mktemp("environment")
    (environment / "bin").mkdir()
    (environment / "words").write_text("found\n")
    (environment / "bin" / "tool").write_text('#!/bin/sh\ncat "${0%/*}/../words"\n')
    (environment / "bin" / "tool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{environment}/bin:{os.environ['PATH']}")

    image = {"image": "busybox:1"}
    assert rehearsed(folder, "azure-batch", container=image, run="tool") == 0
    assert capsys.readouterr().out == "found\n"


PRIVATE = ["~", "/tmp", "/var/tmp", "/dev/shm"]


@pytest.mark.parametrize(
    "provider",
    [
        "azure-batch",
        "slurm",
        pytest.param("azure-batch-ai", marks=pytest.mark.matrix),
        pytest.param("parallelcluster", marks=pytest.mark.matrix),
    ],
)
def test_a_job_changes_nothing_of_this_machine(
    folder: Path, provider: str, capsys: Capture
) -> None:
    """It has temporary folders and a home of its own. The root of a machine itself is not the job's, either."""
    confined, notes = confinement_notes(Path(tempfile.gettempdir()))
    if notes or not confined:
        lack(f"overlayfs: {notes}")
    name = f"runspec-{secrets.token_hex(4)}"
    places = [*PRIVATE, "/usr", "/etc", str(folder)]
    lines = [f"touch {place}/{name} && echo '{place}'" for place in places]
    code = rehearsed(
        folder, provider, run="\n".join([*lines, "mkdir -p /job/out && echo made; exit 0"])
    )

    said = capsys.readouterr()
    assert code == 0, said.err
    made = [line for line in said.out.splitlines() if "annot" not in line]
    assert made == [*PRIVATE, *(["made"] if provider == "azure-batch-ai" else [])]
    assert (said.out + said.err).count("Read-only file system") >= 2
    at = [os.path.expanduser(place) for place in places]
    assert [place for place in at if os.path.lexists(f"{place}/{name}")] == []
