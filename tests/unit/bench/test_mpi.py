"""The specs that `python -m bench mpi` writes can be run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.mpi import SHORT, SPEC, spec_file
from runspec_jobs.cli.app import run


@pytest.mark.parametrize("kind", ["nodes", "slots"])
def test_the_spec_of_a_training_is_planned_with_its_requirements(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SPEC.parent / "mnist", tmp_path / "mnist")

    code = run(["validate", str(spec_file(tmp_path, tmp_path / "pictures", kind, SHORT))])

    assert code == 0, capsys.readouterr().err
