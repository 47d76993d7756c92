"""Where a rehearsal writes, and what becomes of it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from runspec.cli import rehearsing


def test_a_folder_that_goes_away_is_said_to(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody may look for the outputs of the job."""
    with rehearsing._folder(Namespace(folder=None)) as folder:
        assert folder.is_dir()

    assert not folder.exists()
    assert "--folder FOLDER keeps it" in capsys.readouterr().err


def test_a_folder_that_was_named_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with rehearsing._folder(Namespace(folder=str(tmp_path / "kept"))) as folder:
        pass

    assert folder.is_dir()
    assert capsys.readouterr().err == ""
