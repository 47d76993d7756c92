"""The program `pcluster`: finding it, and installing it into an environment of its own.

aws-parallelcluster pins versions (attrs, packaging, cattrs, ...) that must not restrict runspec, so it is never
imported here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from runspec_jobs.provider import RemoteError, Unavailable, state_folder
from runspec_parallelcluster.naming import VERSION
from runspec_parallelcluster.options import ParallelClusterOptions

CONSTRAINTS = Path(__file__).parents[1] / "constraints-parallelcluster.txt"
MARK = ".complete"
INSTALL_S = 900.0
KEPT_OUT = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "UV_PROJECT_ENVIRONMENT")
Tell = Callable[[str], None]


def find_pcluster(options: ParallelClusterOptions) -> Path | None:
    """Return the program: that of the profile, the one on PATH, or runspec's own; None if it is not installed yet.

    Raises Unavailable if the program that the profile names does not exist.
    """
    if options.pcluster:
        named = shutil.which(os.path.expanduser(options.pcluster))
        if named is None:
            what = f"there is no program '{options.pcluster}'"
            raise Unavailable(what, "correct providers.parallelcluster.pcluster, or remove it")
        return Path(named)
    on_path = shutil.which("pcluster")
    if on_path is not None:
        return Path(on_path)
    return own_folder() / "bin" / "pcluster" if complete(own_folder()) else None


def own_folder() -> Path:
    return state_folder() / "tools" / f"parallelcluster-{VERSION}"


def complete(folder: Path) -> bool:
    """Return whether *folder* was installed completely, and its interpreter still exists."""
    return (folder / MARK).exists() and (folder / "bin" / "python").exists()


def program(options: ParallelClusterOptions, tell: Tell) -> Path:
    """Return the program, and install it first if necessary. Raises Unavailable."""
    there = find_pcluster(options)
    if there is None:
        install(own_folder(), tell)
        there = own_folder() / "bin" / "pcluster"
    if shutil.which("node") is None:
        # https://docs.aws.amazon.com/parallelcluster/latest/ug/install-v3-virtual-environment.html
        raise Unavailable("pcluster needs Node.js, which is not installed", "install nodejs")
    return there


def python(pcluster: Path) -> Path | None:
    """Return the Python of *pcluster*: the one beside it, or the one in its first lines; None if neither exists."""
    beside = pcluster.resolve().parent / "python"
    if beside.exists():
        return beside
    with contextlib.suppress(OSError, UnicodeDecodeError):
        head = pcluster.read_bytes()[:512].decode()
        named = re.search(r"(/\S*python[0-9.]*)", head)
        if named and Path(named[1]).exists():
            return Path(named[1])
    return None


def install(folder: Path, tell: Tell) -> None:
    """Install aws-parallelcluster with pinned hashes into *folder*. Raises Unavailable."""
    tell(f"installing aws-parallelcluster {VERSION} into {folder}, once")
    uv = find_uv()
    with _locked(folder):
        if complete(folder):
            return
        shutil.rmtree(folder, ignore_errors=True)
        run_uv(uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(folder))
        into = str(folder / "bin" / "python")
        run_uv(uv, "pip", "sync", "--quiet", "--require-hashes", "--python", into, str(CONSTRAINTS))
        (folder / MARK).touch()


def run_uv(uv: str, *arguments: str) -> None:
    env = {name: value for name, value in os.environ.items() if name not in KEPT_OUT}
    argv = [uv, *arguments, "--no-config", "--color", "never"]
    try:
        done = subprocess.run(
            argv, cwd="/", env=env, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Unavailable(f"aws-parallelcluster cannot be installed: {exc}", _WAY) from exc
    if done.returncode != 0:
        said = next(
            (line for line in reversed(done.stderr.splitlines()) if line.strip()), "no reason"
        )
        raise Unavailable(f"aws-parallelcluster cannot be installed: {said.strip()}", _WAY)


_WAY = f"install it yourself: pipx install aws-parallelcluster=={VERSION}"


def find_uv() -> str:
    try:
        import uv

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        there = shutil.which("uv")
    if there is None:
        raise Unavailable("neither pcluster is installed nor uv, which could install it", _WAY)
    return there


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    except OSError as exc:
        raise RemoteError(f"{folder}: {(exc.strerror or str(exc)).lower()}") from exc
    finally:
        os.close(lock)
