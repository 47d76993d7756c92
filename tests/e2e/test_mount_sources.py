"""Mounts that are no folders: they come to every kind of job, on this machine and rehearsed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

CLOUDS: Mapping[str, Mapping[str, Any]] = {
    "aws-batch": {},
    "aws-batch signed": {"files": "signed", "job_role": None},
    "azure-batch": {},
    "azure-batch signed": {"files": "signed"},
    "azure-batch-ai": {},
    "parallelcluster": {
        "region": "us-east-1",
        "key_pair": "my-key",
        "subnets": ["subnet-0123456789abcdef0"],
    },
    "slurm": {},
}
JOB: Mapping[str, Any] = {
    "apiVersion": "runspec/v1",
    "name": "files",
    "mounts": [
        {"name": "code", "source": "./code", "target": "/job/code"},
        {"name": "train", "source": "./train.sh", "target": "/job/train"},
        {"name": "config", "source": "./config.json", "target": "/job/config.json"},
    ],
    "outputs": [{"name": "seen", "path": "/seen"}],
    "run": "sh ${mounts.train} ${mounts.config} ${mounts.code} >${outputs.seen}/seen\n"
    "stat -c '%a %Y' ${mounts.train} >${outputs.seen}/stat",
}


def seen(provider: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the job printed about its files, and the mode and time of the first."""
    monkeypatch.chdir(folder)
    (folder / "code").mkdir()
    (folder / "code" / "a").write_text("a\n")
    (folder / "train.sh").write_text('cat "$1" "$2/a"\n')
    (folder / "train.sh").chmod(0o755)
    os.utime(folder / "train.sh", (10**9, 10**9))
    (folder / "config.json").write_text("{}\n")
    (folder / "job.yaml").write_text(json.dumps({**JOB, "provider": provider.split(maxsplit=1)[0]}))
    out = folder / "kept"
    if provider == "local":
        assert run(["apply", "job.yaml"]) == 0
        assert run(["fetch", "files", str(out / "outputs")]) == 0
    else:
        settings = {k: v for k, v in CLOUDS[provider].items() if v is not None}
        own_profile().write_text(
            json.dumps({"providers": {provider.split(maxsplit=1)[0]: settings}})
        )
        assert run(["rehearse", "job.yaml", "--folder", str(out)]) == 0
    files = [path for path in (out / "outputs").rglob("*") if path.is_file()]
    return [path.read_text() for path in sorted(files, key=lambda path: path.name)]


def test_files_come_to_a_job_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen("local", tmp_path, monkeypatch) == ["{}\na\n", "555 1000000000\n"]


@pytest.mark.slow
@pytest.mark.parametrize("provider", CLOUDS)
def test_files_come_to_a_job_of_each_service(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under their new names; those of Batch AI are blobs, which have no modes and times."""
    need("azurite", *PROGRAMS)

    text, stat = seen(provider, tmp_path, monkeypatch)

    assert text == "{}\na\n"
    assert provider == "azure-batch-ai" or stat == "755 1000000000\n"
