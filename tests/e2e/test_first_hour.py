"""What a new user does first: the first spec of README.md, and docs/tutorial.md from top to bottom."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from tests.support.doc_blocks import blocks
from tests.support.requirements import need
from tests.support.root import ROOT

pytestmark = pytest.mark.slow
Capture = pytest.CaptureFixture[str]


def test_the_first_spec_of_the_readme_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    first = next(block for block in blocks("README.md") if block.language == "yaml")
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(first.text)

    assert run(["apply", "job.yaml"]) == 0

    assert capsys.readouterr().out.count("epoch 3  loss=") == 3
    spec = (ROOT / "specs" / "fit.yaml").read_text()
    assert re.sub(r"^#.*\n", "", spec, flags=re.MULTILINE) == first.text


def test_the_tutorial_runs_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Each block is done in its order: a program or a spec is saved, and each command of runspec ends with 0."""
    need("azurite")
    folder = tmp_path / "fit"
    folder.mkdir()
    monkeypatch.chdir(folder)

    for block in blocks("docs/tutorial.md"):
        if block.language == "python":
            Path("train.py").write_text(block.text)
        elif block.language == "yaml":
            Path("job.yaml").write_text(block.text)
        else:
            for line in block.lines():
                _, *words = shlex.split(line)
                assert not line.startswith("runspec ") or run(words) == 0, line

    printed = capsys.readouterr().out
    # Once by itself, and three tasks on this machine and on each stand-in.
    assert printed.count("epoch 4 loss=") == 1 + 3 * 3
    assert (folder / "results").is_dir()
    assert [path.name for path in (folder / "best").rglob("*.txt")] == ["weight.txt"]
