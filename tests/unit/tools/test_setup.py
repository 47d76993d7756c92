"""`tools/setup` says what it does and how long it takes, and does nothing when nothing changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from runspec_local.session.uv import BUNDLES
from tests.support.root import ROOT

pytestmark = pytest.mark.process
# These take the place of the tools that fetch packages.
UV = """#!/bin/sh
echo "$@" >>uv-calls
[ "$2" != sync ] || echo "system certificates: $UV_SYSTEM_CERTS" >>uv-trust
case $1 in venv) mkdir -p .venv/bin && cp "$0" .venv/bin/uv && cp "$(dirname "$0")/python3" .venv/bin/python ;; esac
"""
PYTHON = '#!/bin/sh\ncase "$2" in *import*runspec*) [ "$2" = "import runspec_jobs" ] ;; esac\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the files that the set-up reads, and tools that install nothing."""
    for name in ("tools/setup", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for name, text in {"uv": UV, "python3": PYTHON}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def set_up(checkout: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{checkout}/bin:{os.environ['PATH']}"
    return subprocess.run(
        [checkout / "tools" / "setup", *words],
        env={"PATH": path, "HOME": str(checkout), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_says_what_it_does_and_how_long_it_took(checkout: Path) -> None:
    done = set_up(checkout)

    pins = len(re.findall(r"^[a-z0-9-]+==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert done.returncode == 0, done.stderr
    making, installing, ended = done.stderr.splitlines()
    assert making == f"tools/setup: making .venv with {checkout}/bin/python3"
    assert installing.startswith(f"tools/setup: installing {pins} packages: half a minute")
    assert re.fullmatch(r"tools/setup: done in \d+ s; try .venv/bin/runspec --help", ended)


def test_it_does_nothing_when_nothing_changed(checkout: Path) -> None:
    assert set_up(checkout).returncode == 0
    before = (checkout / "uv-calls").read_text()

    done = set_up(checkout)

    assert (checkout / "uv-calls").read_text() == before
    assert (done.returncode, done.stderr) == (
        0,
        "tools/setup: nothing to do: .venv is as constraints.txt pins it\n",
    )


def test_it_installs_again_when_a_pin_changed(checkout: Path) -> None:
    assert set_up(checkout).returncode == 0
    with (checkout / "constraints.txt").open("a") as file:
        file.write("another==1\n")

    done = set_up(checkout)

    assert "installing" in done.stderr and "making" not in done.stderr


@pytest.mark.parametrize(
    ("env", "trusted"), [({}, "1"), ({"SSL_CERT_FILE": "x"}, ""), ({"UV_SYSTEM_CERTS": "0"}, "0")]
)
def test_uv_trusts_what_the_machine_trusts(
    checkout: Path, env: dict[str, str], trusted: str
) -> None:
    if not any(map(os.path.exists, BUNDLES)):
        pytest.skip("this machine has no bundle of certificates")

    assert set_up(checkout, **env).returncode == 0

    assert (checkout / "uv-trust").read_text() == f"system certificates: {trusted}\n"


def test_the_bundles_are_those_of_the_environments_of_jobs() -> None:
    text = (ROOT / "tools" / "setup").read_text().partition("for bundle in ")[2].partition(";")[0]

    assert tuple(text.replace("\\\n", " ").split()) == BUNDLES


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_makes_nothing(checkout: Path, word: str) -> None:
    done = set_up(checkout, word)

    assert (done.returncode, done.stderr) == (0, "")
    assert "tools/setup --test" in done.stdout and "400 MB" in done.stdout
    assert not (checkout / ".venv").exists()


def test_an_unknown_argument_is_an_error_with_a_hint(checkout: Path) -> None:
    done = set_up(checkout, "--tset")

    assert (done.returncode, done.stderr) == (
        2,
        "tools/setup: unknown argument '--tset'\nhint: see tools/setup --help\n",
    )
    assert not (checkout / ".venv").exists()
