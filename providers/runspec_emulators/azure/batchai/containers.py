"""containerSettings: the job in a container of podman, where that is the engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from runspec_emulators import inherited
from runspec_emulators.azure.batchai.settings import Settings

OURS = ("PATH", "HOME")  # an image has its own


def prefix(
    settings: Settings, properties: Mapping[str, Any], env: Mapping[str, str]
) -> tuple[str, ...]:
    """Give the words that put a command into the job's container; none for a plain process.

    "If not provided, the job will run directly on the node": JobBaseProperties.containerSettings.
    Values go by podman's own environment, never by argv.
    """
    asked = properties.get("containerSettings")
    if asked is None or settings.engine != "podman":
        return ()
    words = [*settings.podman, "run", "--rm", "--network", "host"]
    words += ["--volume", f"{settings.folder}:{settings.folder}"]
    words += ["--workdir", env["AZ_BATCHAI_JOB_TEMP"]]
    for folder in [*settings.folders.values(), *settings.unmanaged.values()]:
        words += ["--volume", f"{folder}:{folder}"]
    if "shmSize" in asked:
        words += ["--shm-size", asked["shmSize"]]
    ours = inherited.variables()
    for name in env:
        if name not in OURS and env[name] != ours.get(name):
            words += ["--env", name]
    return (*words, asked["imageSourceRegistry"]["image"])


def around(env: Mapping[str, str]) -> dict[str, str]:
    """Give the environment of podman itself: its images are those of whoever rehearses."""
    return {**os.environ, **env, **{k: os.environ[k] for k in OURS if k in os.environ}}
