"""The provider of docs/provider.md with a store of its own runs a job through the agent, as it stands there."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_jobs import api
from runspec_jobs.load import registry
from tests.support.guide_packages import write_metadata, write_package

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install both packages of the page into this process; give the folder of the second."""
    for name in ("runspec-tiny", "runspec-tinydb"):
        write_metadata(write_package(name, tmp_path / name))
        monkeypatch.syspath_prepend(tmp_path / name)
    registry.list_installed.cache_clear()
    yield tmp_path / "runspec-tinydb"
    registry.list_installed.cache_clear()
    for module in [name for name in sys.modules if name.startswith("runspec_tiny")]:
        del sys.modules[module]


def test_a_job_with_a_store_of_its_own_reads_mounts_and_saves_outputs(folder: Path) -> None:
    run = api.apply(api.load(folder / "job.yaml"), detach=False)

    status = run.status()
    assert (status.state, status.exit_code, status.reason) == (api.State.SUCCEEDED, 0, "")
    lines = (folder / "runspec_tinydb_agent/__init__.py").read_text().count("\n")
    [saved] = run.fetch(folder / "fetched")
    assert (folder / "fetched/lines/count.txt").read_text() == f"{lines}\n"
    assert saved == folder / "fetched/lines/count.txt"
    database = sqlite3.connect(Path.home() / ".cache/runspec-tiny/store.db")
    keys = [bytes(key).decode() for (key,) in database.execute("SELECT key FROM objects")]
    assert f"runs/{run.id}/ends/0/1/0-0-program" in keys
