"""A rehearsal tries what its jobs will do, where they will do it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_emulators.frame import containers


@pytest.mark.process
def test_the_trial_of_a_confinement_keeps_its_files_in_the_folder_of_the_rehearsal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder for temporary files may be of another file system, which overlayfs takes or refuses."""
    tried: list[Path] = []

    def rootless(folder: Path) -> list[str]:
        tried.append(folder)
        return ["/bin/false"]

    monkeypatch.setattr(containers, "rootless", rootless)

    confined, notes = containers.confinement_notes(tmp_path, ", and more")

    assert [folder.parent for folder in tried] == [tmp_path]
    assert (confined, len(notes)) == (False, 1) and notes[0].endswith(", and more")
    assert list(tmp_path.iterdir()) == []
