"""containerSettings: the job in a container of podman, where that is the engine."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_emulators.batch_ai.settings import Settings
from runspec_emulators.frame.containers import rooted
from runspec_emulators.frame.processes import inherited

OURS = ("PATH", "HOME")  # an image has its own values of these variables


def prefix(
    settings: Settings, properties: Mapping[str, Any], env: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the argv that starts a command in the job's container; empty for a plain process.

    "If not provided, the job will run directly on the node": JobBaseProperties.containerSettings.
    Values go by podman's own environment, never by argv.
    """
    asked = properties.get("containerSettings")
    if asked is None or settings.engine != "podman":
        return _root(settings) if settings.own_root else ()
    argv = [*settings.podman, "run", "--rm", "--network", "host"]
    argv += ["--volume", f"{settings.folder}:{settings.folder}"]
    argv += ["--workdir", env["AZ_BATCHAI_JOB_TEMP"]]
    for folder in [*settings.folders.values(), *settings.unmanaged.values()]:
        argv += ["--volume", f"{folder}:{folder}"]
    if "shmSize" in asked:
        argv += ["--shm-size", asked["shmSize"]]
    ours = inherited()
    for name in env:
        if name not in OURS and env[name] != ours.get(name):
            argv += ["--env", name]
    return (*argv, asked["imageSourceRegistry"]["image"])


def _root(settings: Settings) -> tuple[str, ...]:
    """Return the words that give a process a root of its own; a job ran as root on its nodes, too."""
    shares = map(Path, (*settings.folders.values(), *settings.unmanaged.values()))
    return (*rooted(settings.folder / f"own-{uuid.uuid4().hex}", settings.folder, *shares),)


def around(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of podman itself: its images are those of whoever rehearses."""
    return {**os.environ, **env, **{k: os.environ[k] for k in OURS if k in os.environ}}
