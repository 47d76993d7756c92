"""What is saved on this machine gets its plain names, whatever was below them before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runspec_jobs.provider import RemoteError
from runspec_local.publish import publish
from tests.support.saved_folder import plain, save

NAMES = ["a b", "line\nend", "byte\udcff", "old/now-a-file"]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tmp_path / "outputs/model/0/0"


def test_every_name_is_linked_and_what_the_save_lacks_goes(tmp_path: Path, top: Path) -> None:
    save(top, 1, NAMES)
    assert publish(tmp_path) == []
    first = plain(top)
    save(top, 2, ["old"])

    assert publish(tmp_path) == []

    assert first == {name: os.fsencode(name) for name in NAMES}
    assert plain(top) == {"old": b"old"}
    assert (top / "old").stat().st_nlink == 2


def test_files_are_copied_where_there_are_no_links(
    tmp_path: Path, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    save(top, 1, ["a"])

    assert publish(tmp_path) == []
    assert ((top / "a").read_bytes(), (top / "a").stat().st_nlink) == (b"a", 1)


def test_nothing_is_written_through_a_link_that_leads_out(tmp_path: Path, top: Path) -> None:
    save(top, 1, ["out/a"])
    (tmp_path / "elsewhere").mkdir()
    (top / "out").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(RemoteError, match=r"leads .* out of"):
        publish(tmp_path)

    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert json.loads((top / ".runspec/published").read_bytes())["save"] == 0  # it is not done
