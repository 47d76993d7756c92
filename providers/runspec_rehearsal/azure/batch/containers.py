"""Tasks in containers, by podman: containerSettings become options of its command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_rehearsal.azure.batch.settings import Settings


def wrapped(
    settings: Settings,
    container: Mapping[str, Any],
    argv: list[str],
    env: Mapping[str, str],
    folder: Path,
) -> tuple[list[str], dict[str, str]]:
    """Give the command that runs *argv* in a container, and the environment of that command.

    "all directories recursively below the AZ_BATCH_NODE_ROOT_DIR [...] are mapped into the
    container, all Task environment variables are mapped into the container". Values go by a file,
    never by argv. BatchTaskContainerSettings of the service's description.
    """
    root = env["AZ_BATCH_NODE_ROOT_DIR"]
    inside = {k: v for k, v in env.items() if k not in ("PATH", "HOME") and "\n" not in v}
    file = folder / ".env"
    file.touch(0o600)
    file.write_text("".join(f"{k}={v}\n" for k, v in inside.items()))
    line = [*settings.podman, "run", "--rm", "--network", "host", "--volume", f"{root}:{root}"]
    line += ["--env-file", str(file)]
    if container.get("workingDirectory", "taskWorkingDirectory") == "taskWorkingDirectory":
        line += ["--workdir", str(folder / "wd")]
    line += shlex.split(container.get("containerRunOptions", ""))
    return [*line, container["imageName"], *argv], dict(env)
