"""aws-parallelcluster comes at pinned versions, into an environment of its own, whole or not at all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runspec_jobs.provider import Unavailable
from runspec_parallelcluster import discover
from runspec_parallelcluster.naming import VERSION
from runspec_parallelcluster.session import install
from tests.support.requirements import need


def test_every_pin_has_a_hash_and_no_address() -> None:
    text = install.CONSTRAINTS.read_text()
    pins = re.findall(r"^[a-z0-9-]+==.*", text, re.MULTILINE)

    assert f"aws-parallelcluster=={VERSION} \\" in pins
    assert [pin for pin in pins if not pin.endswith("\\")] == []
    assert "://" not in text


def test_a_complete_installation_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "there"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    (folder / install.MARK).touch()
    monkeypatch.setattr(install, "run_uv", lambda *_: pytest.fail("made again"))

    install.install(folder, lambda line: None)


def test_an_incomplete_installation_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is cut off leaves no mark, and the next one begins anew."""
    folder, calls = tmp_path / "half", list[str]()

    def run(uv: str, *words: str) -> None:
        calls.append(words[0])
        folder.mkdir(exist_ok=True)
        (folder / f"left-by-{words[0]}").touch()
        if words[0] == "pip" and calls.count("pip") == 1:
            raise Unavailable("no network")

    monkeypatch.setattr(install, "run_uv", run)
    with pytest.raises(Unavailable):
        install.install(folder, lambda line: None)
    assert not (folder / install.MARK).exists()

    install.install(folder, lambda line: None)

    assert calls == ["venv", "pip", "venv", "pip"]
    assert (folder / install.MARK).exists()


@pytest.mark.process
def test_an_error_of_uv_is_shown_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho 'error: no route to the index' >&2\nexit 2\n")
    uv.chmod(0o755)
    monkeypatch.setattr(install, "find_uv", lambda: str(uv))

    with pytest.raises(Unavailable, match="no route to the index") as caught:
        install.install(tmp_path / "new", lambda line: None)

    assert caught.value.hint and f"aws-parallelcluster=={VERSION}" in caught.value.hint


@pytest.mark.slow
def test_the_installed_library_checks_a_configuration(tmp_path: Path) -> None:
    need("node")
    told: list[str] = []

    install.install(tmp_path / "own", told.append)

    said = discover.ask(tmp_path / "own" / "bin" / "python", [{}])
    assert said is not None and said["version"] == VERSION and said["problems"][0]
    assert len(told) == 1


@pytest.mark.process
def test_an_installation_that_fails_is_told_by_the_last_line_of_uv() -> None:
    install.run_uv("sh", "-c", "exit 0")

    with pytest.raises(Unavailable, match="cannot be installed: no such wheel"):
        install.run_uv("sh", "-c", "echo resolving >&2; echo no such wheel >&2; exit 1")
