"""The login at a private registry while an image is pulled: a file for the engine, which only its owner can read.

The file is in a folder that is named after this process and is deleted after the pull. What a killed process left is
deleted by the next pull.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from runspec_jobs.provider import docker_auth
from runspec_local.supervisor import process

BEGIN = "login-"


class EngineOptions(NamedTuple):
    """Options of an engine, *before* and *after* the command."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@contextlib.contextmanager
def options(root: Path, engine: str, login: Mapping[str, str] | None) -> Iterator[EngineOptions]:
    """Yield the options by which *engine* reads *login*, which has its password, from a file below *root*."""
    _remove_left(root)
    if login is None:
        yield EngineOptions()
        return
    begin = f"{BEGIN}{os.getpid()}-{process.start_ticks(os.getpid())}-"
    with tempfile.TemporaryDirectory(prefix=begin, dir=root) as folder:
        file = Path(folder, "config.json")  # docker's name
        content = docker_auth(login)
        if engine == "docker":
            content |= _context(Path(folder))
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as text:
            json.dump(content, text)
        if engine == "docker":
            yield EngineOptions(before=("--config", folder))
        else:
            yield EngineOptions(after=("--authfile", str(file)))


def _context(folder: Path) -> dict[str, Any]:
    """Link docker's contexts into *folder*, and return the setting that names the one in use.

    A context says where the daemon is: https://docs.docker.com/engine/manage-resources/contexts/
    """
    own = Path(os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker"))
    try:
        name = json.loads((own / "config.json").read_text())["currentContext"]
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    (folder / "contexts").symlink_to(own / "contexts")
    return {"currentContext": name}


def _remove_left(root: Path) -> None:
    """Delete the folders of processes that were killed."""
    for folder in root.glob(f"{BEGIN}*"):
        pid, _, ticks = folder.name.removeprefix(BEGIN).rpartition("-")[0].partition("-")
        if pid.isdecimal() and str(process.start_ticks(int(pid))) != ticks:
            shutil.rmtree(folder, ignore_errors=True)
