"""A secret of the caller's shell on services: the program has it, and what is kept has its name alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from tests.support.requirements import need
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
SCRIPT = 'echo "$PLAIN ${#TOKEN}"'
FIELDS = {"env": {"PLAIN": {"from": "caller"}}, "secrets": {"TOKEN": {"from": "caller"}}}


@pytest.fixture(autouse=True)
def _shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN", "it's")
    monkeypatch.setenv("TOKEN", "s3cret-s3cret")


def test_on_slurm_it_is_in_a_private_file_until_the_run_is_destroyed(project: Project) -> None:
    found = project.ended(SCRIPT, **FIELDS)

    assert found["state"] == "succeeded", project.log()
    assert project.log().splitlines() == ["it's 13"]
    with_it = [p for p in project.folder.rglob("*") if p.is_file() and b"s3cret" in p.read_bytes()]
    assert [p.stat().st_mode & 0o777 for p in with_it] == [0o600]
    assert project.said("destroy", found["run"])[0] == 0
    assert not [p for p in with_it if p.exists()]


def test_on_azure_batch_it_is_a_variable_of_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    need("azurite")
    monkeypatch.chdir(tmp_path)
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "azure-batch", "run": SCRIPT}
    (tmp_path / "job.yaml").write_text(json.dumps({**spec, **FIELDS}))

    code = run(["rehearse", "job.yaml", "--folder", str(tmp_path / "kept")])

    out, err = capfd.readouterr()
    assert code == 0, err
    assert "it's 13" in out
    assert "s3cret" not in out + err
