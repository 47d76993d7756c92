"""An engine reads a login from a file that is there while it pulls an image, and no longer."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from runspec_local.infrastructure import login_options

LOGIN = {"registry": "registry.example.org", "user": "me", "password": "hush"}
AUTHS = {"registry.example.org": {"auth": "bWU6aHVzaA=="}}


def test_podman_gets_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    with login_options(tmp_path, "podman", LOGIN) as words:
        name, value = words.after
        file = Path(value)
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)]
        content = json.loads(file.read_text())

    assert (words.before, name, content) == ((), "--authfile", {"auths": AUTHS})
    assert modes == [0o600, 0o700]
    assert list(tmp_path.iterdir()) == []


def test_docker_keeps_the_context_that_says_where_its_daemon_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, root = tmp_path / "own", tmp_path / "root"
    (own / "contexts" / "meta").mkdir(parents=True)
    root.mkdir()
    kept = {
        "currentContext": "mine",
        "auths": {"other.example.org": {"auth": "x"}},
        "credsStore": "y",
    }
    (own / "config.json").write_text(json.dumps(kept))
    monkeypatch.setenv("DOCKER_CONFIG", str(own))

    with login_options(root, "docker", LOGIN) as words:
        name, value = words.before
        content = json.loads(Path(value, "config.json").read_text())
        contexts = Path(value, "contexts", "meta").is_dir()

    assert (name, contexts) == ("--config", True)
    assert content == {"auths": AUTHS, "currentContext": "mine"}
    assert (own / "contexts" / "meta").is_dir()
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("text", [None, "{", "[]", "{}"])
def test_docker_without_a_context_has_the_login_alone(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    if text is not None:
        (tmp_path / "config.json").write_text(text)

    with login_options(tmp_path, "docker", LOGIN) as words:
        found = json.loads(Path(words.before[1], "config.json").read_text())

    assert found == {"auths": AUTHS}


def test_the_next_pull_deletes_logins_of_a_killed_process(tmp_path: Path) -> None:
    left = tmp_path / f"login-{os.getpid()}-1-abc"  # a process that had this id before
    left.mkdir()
    (left / "config.json").write_text("hush")

    with (
        login_options(tmp_path, "podman", LOGIN) as mine,
        login_options(tmp_path, "podman", None) as none,
    ):
        there = Path(mine.after[1]).exists()

    assert (left.exists(), there, none) == (False, True, ((), ()))
