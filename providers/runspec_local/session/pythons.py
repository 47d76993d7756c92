"""Find the Python for a job's environment; no Python is downloaded."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from runspec_jobs.provider import Unavailable
from runspec_jobs.provider.commands import python_fits, python_version
from runspec_local.session.uv import last_said, uv_environment

RUNS_S = 30.0  # an interpreter that does not start in this time does not work

EXAMPLES = ("3.14", "3.13", "3.12", "3.11", "3.10", "3.9", "3.8")
ASK = (
    "import platform, sys;"
    "print(getattr(sys, '_base_executable', None) or sys.executable);"
    "print(platform.python_version())"
)


def find_python(uv: str, specifier: str | None, interpreter: str | None = None) -> tuple[str, str]:
    """Return the path and full version of a Python that satisfies *specifier* and can be started.

    If *interpreter* is given, no other is considered. Otherwise the one that runs runspec is preferred, and then the
    newest. Raise UsageError for an invalid specifier, and Unavailable if no Python satisfies it.
    """
    wanted = ">=3" if specifier is None else specifier
    if interpreter is not None:
        return _named(interpreter, wanted)
    base = getattr(sys, "_base_executable", "") or sys.executable
    if python_fits(platform.python_version(), wanted):
        return base, platform.python_version()
    installed = installed_pythons(uv)
    fitting = [path for path, version in installed if python_fits(version, wanted)]
    for path in fitting:
        if (answer := _asked(path)) is not None:
            return answer
    others = {version for path, version in installed if path not in fitting}
    raise _none_fits(wanted, others | {platform.python_version()})


def _named(interpreter: str, wanted: str) -> tuple[str, str]:
    version = _asked(str(Path(interpreter).expanduser()))
    if version is None:
        raise Unavailable(
            f"'{interpreter}' cannot be started as a Python interpreter",
            "set the path of another interpreter",
        )
    if not python_fits(version[1], wanted):
        hint = "set the path of another interpreter, or change container.python"
        raise Unavailable(f"'{interpreter}' is Python {version[1]}, which is not '{wanted}'", hint)
    return version


def _none_fits(wanted: str, there: Iterable[str]) -> Unavailable:
    versions = ", ".join(sorted(there, key=python_version))
    named = re.findall(r"[0-9]+(?:\.[0-9]+)*", wanted)
    example = next((n for n in (*EXAMPLES, *named) if python_fits(n, wanted)), "3")
    return Unavailable(
        f"no Python on this machine satisfies '{wanted}'; found {versions}",
        f"install one, for example: uv python install {example}",
    )


def installed_pythons(uv: str) -> list[tuple[str, str]]:
    """Give paths and versions of the interpreters uv sees, newest first."""
    command = [uv, "python", "list", "--only-installed", "--offline", "--no-config"]
    environment = uv_environment(os.environ)
    environment["PATH"] = search_path(environment.get("PATH", os.defpath))
    done = subprocess.run(
        [*command, "--output-format", "json"],
        capture_output=True,
        cwd="/",  # a checkout's .venv or .python-version must not matter
        env=environment,
        check=False,
    )
    try:
        listed = json.loads(done.stdout)
    except ValueError as exc:
        message = f"uv cannot list interpreters: {last_said(done.stderr.decode())}"
        raise Unavailable(message, "run `uv python list` to see why") from exc
    pythons = {
        entry["path"]: entry["version"]
        for entry in listed
        if entry["path"] and (entry["implementation"], entry["variant"]) == ("cpython", "default")
    }
    return sorted(pythons.items(), key=lambda python: python_version(python[1]), reverse=True)


def search_path(path: str) -> str:
    """Return *path* with pyenv's folder of shims replaced by the folders of its versions.

    A shim is slow, and it refuses all versions but the one that some file selects.
    """
    folders: list[str] = []
    for folder in path.split(os.pathsep):
        versions = Path(folder).parent / "versions"
        if Path(folder).name == "shims" and versions.is_dir():
            folders += sorted(str(real) for real in versions.glob("*/bin"))
        else:
            folders.append(folder)
    return os.pathsep.join(folders)


def _asked(path: str) -> tuple[str, str] | None:
    """Return the real path and the version of the interpreter at *path*; None if it fails."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", ASK],
            capture_output=True,
            cwd="/",  # a .python-version file would choose for a shim
            text=True,
            timeout=RUNS_S,
            check=True,
        )
        where, version = done.stdout.splitlines()
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return where, version
