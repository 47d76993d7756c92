"""Tasks in containers, by podman: containerSettings become options of its command line."""

from __future__ import annotations

import shlex
import subprocess
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
    name: str,
) -> list[str]:
    """Give the command that runs *argv* in a container called *name*.

    "all directories recursively below the AZ_BATCH_NODE_ROOT_DIR [...] are mapped into the
    container, all Task environment variables are mapped into the container"; mounts too, which are
    links here. Values go by a file, never by argv. BatchTaskContainerSettings.
    """
    root = Path(env["AZ_BATCH_NODE_ROOT_DIR"])
    file = root / f"{name}.env"
    file.touch(0o600)
    file.write_text("".join(f"{k}={v}\n" for k, v in env.items() if "\n" not in v))
    line = [*settings.podman, "run", "--rm", "--name", name, "--network", "host"]
    line += ["--env-file", str(file), "--volume", f"{root}:{root}"]
    for mount in Path(env["AZ_BATCH_NODE_MOUNTS_DIR"]).rglob("*"):
        if mount.is_symlink():
            line += ["--volume", f"{mount.resolve()}:{mount.resolve()}"]
    if container.get("workingDirectory", "taskWorkingDirectory") == "taskWorkingDirectory":
        line += ["--workdir", str(folder / "wd")]
    options = [o for o in shlex.split(container.get("containerRunOptions", "")) if o != "--rm"]
    return [*line, *options, container["imageName"], *argv]


def removed(settings: Settings, name: str) -> None:
    """End a container and all in it."""
    line = [*settings.podman, "rm", "--force", "--ignore", "--time", "0", name]
    subprocess.run(line, check=False, stdin=subprocess.DEVNULL, capture_output=True)
