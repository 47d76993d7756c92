"""runspec-jobs and the other project's package `runspec` in one environment, installed in both orders."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.conftest import REAL_CACHE
from tests.support.root import ROOT

pytestmark = pytest.mark.slow
PIN = ROOT / "tests/fixtures/other-runspec.txt"
UV = str(Path(sys.executable).parent / "uv")


def run(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (ours,) = folder.glob("*.whl")
    return {"ours": ours, "other": other_runspec()}


def other_runspec() -> Path:
    """Return the wheel of the other project, downloaded once by pip: 340 kB."""
    folder = Path(REAL_CACHE) / "runspec-tests" / "other-runspec"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        if not list(folder.glob("*.whl")):
            words = ["--no-deps", "--require-hashes", "-d", str(folder), "-r", str(PIN)]
            subprocess.run([*pip, *words], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(params=[("ours", "other"), ("other", "ours")], ids="-then-".join)
def installed(
    request: pytest.FixtureRequest, tmp_path: Path, wheels: dict[str, Path]
) -> tuple[Path, str]:
    """Return the bin folder of an environment with both, and which was installed last."""
    venv.create(tmp_path, with_pip=False)
    site = next(tmp_path.glob("lib/python*/site-packages"))
    # What ours depends on; the editable install of this checkout is a .pth file, which is not read there.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    for name in request.param:
        run(
            UV,
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--python",
            tmp_path / "bin/python",
            wheels[name],
        )
    return tmp_path / "bin", request.param[-1]


def test_both_packages_can_be_imported_whatever_was_installed_first(
    installed: tuple[Path, str],
) -> None:
    python = installed[0] / "python"
    code = "import runspec, runspec_jobs.cli.app; print(runspec.__file__, runspec_jobs.__file__)"

    files = run(python, "-I", "-c", code).split()

    site = python.parents[1]
    assert [Path(file).parent.name for file in files] == ["runspec", "runspec_jobs"]
    assert all(Path(file).is_relative_to(site) for file in files)


def test_our_command_has_a_name_that_nobody_else_takes(installed: tuple[Path, str]) -> None:
    bin_folder, last = installed

    versions = [
        run(bin_folder / "runspec-jobs", "--version"),
        run(bin_folder / "python", "-m", "runspec_jobs", "--version"),
    ]

    assert versions[0] == versions[1]
    assert versions[0].startswith("runspec ")
    module = "runspec_jobs" if last == "ours" else "runspec.cli"
    assert f"from {module}" in (bin_folder / "runspec").read_text()
