"""Write the login of one command of a container engine into a private folder, where the user's own is not used."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider.registry_login import docker_auth


class EngineOptions(NamedTuple):
    """Options of an engine, *before* and *after* the command."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def write_login(engine: str, folder: Path, login: Mapping[str, str]) -> EngineOptions:
    """Write *login* (`registry`, `user`, `password`) into *folder*; return the options by which *engine* reads it."""
    file = folder / "config.json"  # docker's name
    content = docker_auth(login)
    if engine == "docker":
        content |= _keep_context(folder)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as text:
        json.dump(content, text)
    if engine == "docker":
        return EngineOptions(before=("--config", str(folder)))
    return EngineOptions(after=("--authfile", str(file)))


def _keep_context(folder: Path) -> dict[str, Any]:
    """Give *folder* the contexts of the user's docker, and return which one is in use: it says where the daemon is.

    https://docs.docker.com/engine/manage-resources/contexts/
    """
    own = Path(os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker"))
    if (own / "contexts").is_dir():
        (folder / "contexts").symlink_to((own / "contexts").absolute())
    try:
        current = json.loads((own / "config.json").read_text()).get("currentContext")
    except (OSError, ValueError, AttributeError):
        # No such file, or none of docker's: then docker's default context is in use.
        return {}
    return {"currentContext": current} if isinstance(current, str) else {}
