"""Tasks in containers, by podman: containerSettings become options of its command line."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from runspec_emulators.azure_batch.settings import Settings
from runspec_emulators.frame.containers import env_options, own_env, run_podman
from runspec_emulators.frame.folders import list_below

# What a container of several commands does between them.
WAITS = ["/bin/sh", "-c", "while :; do sleep 60; done"]


USER = 1000
"""The user id of tasks without administrator permissions; that of the service is not documented, and is not root's."""


class Container(NamedTuple):
    """The container settings of a task."""

    settings: Mapping[str, Any]
    """containerSettings."""
    admin: bool
    """Whether its user is one with administrator permissions."""


def of(body: Mapping[str, Any]) -> Container | None:
    """Return the container of a task; None where it has none.

    userIdentity: "If omitted, the Task runs as a non-administrative user unique to the Task."
    """
    if "containerSettings" not in body:
        return None
    user = body.get("userIdentity", {}).get("autoUser", {})
    return Container(body["containerSettings"], user.get("elevationLevel") == "admin")


def own(folder: Path) -> None:
    """Let every user write to the folder of a task, whose user may be another one: only root can change the owner."""
    for at in (folder, *list_below(folder)):
        if not at.is_symlink():
            at.chmod(at.stat().st_mode | 0o777)


def not_pulled(settings: Settings, container: Container) -> str | None:
    """Return why the image of a task cannot be pulled, or None if it is there or can be.

    The service then starts nothing, and the failure of the task is ContainerInvalidImage:
    https://github.com/nextflow-io/nextflow/pull/2099
    """
    image = container.settings["imageName"]
    if subprocess.run([*settings.podman, "image", "exists", image], check=False).returncode == 0:
        return None
    line = [*settings.podman, "pull", "--quiet", image]
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else None


def wrapped(
    settings: Settings,
    container: Container,
    argv: list[str],
    env: Mapping[str, str],
    folder: Path,
    name: str,
) -> list[str]:
    """Return the command that runs *argv* in a container called *name*; podman's own environment is `own_env`."""
    line = _run(settings, env, name, "--rm")
    return [
        *line,
        *_user(container, folder),
        *_options(container, folder),
        container.settings["imageName"],
        *argv,
    ]


def begun(
    settings: Settings,
    container: Container,
    env: Mapping[str, str],
    folder: Path,
    name: str,
) -> None:
    """Start a container that commands go into one after the other; raise OSError if it does not.

    That the commands of a multi-instance task on one node share a container is written nowhere by the
    service. But what the coordination command leaves in the background has to be there still:
    https://learn.microsoft.com/en-us/azure/batch/batch-mpi#coordination-command, and Batch Shipyard
    leaves it to the service: "Azure Batch natively understands how to handle these executions".
    https://batch-shipyard.readthedocs.io/en/latest/80-batch-shipyard-multi-instance-tasks/
    """
    line = _run(settings, env, name, "--rm", "--detach")
    line += [
        *_user(container, folder),
        *_options(container, folder),
        container.settings["imageName"],
        *WAITS,
    ]
    done = subprocess.run(
        line,
        check=False,
        env=own_env(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise OSError(done.stderr.strip())


def inside(
    settings: Settings, container: Container, argv: list[str], folder: Path, name: str
) -> list[str]:
    """Return the command that runs *argv* in a container that has begun."""
    return [*settings.podman, "exec", *_workdir(container, folder), name, *argv]


def _run(settings: Settings, env: Mapping[str, str], name: str, *arguments: str) -> list[str]:
    """Return the arguments before the image.

    "all directories recursively below the AZ_BATCH_NODE_ROOT_DIR [...] are mapped into the
    container, all Task environment variables are mapped into the container"; mounts too, which are
    links here. BatchTaskContainerSettings.
    """
    root = Path(env["AZ_BATCH_NODE_ROOT_DIR"])
    line = [*settings.podman, "run", *arguments, "--name", name]
    line += [*env_options(root / f"{name}.env", env), "--volume", f"{root}:{root}"]
    for mount in list_below(Path(env["AZ_BATCH_NODE_MOUNTS_DIR"])):
        if mount.is_symlink():
            line += ["--volume", f"{mount.resolve()}:{mount.resolve()}"]
    return line


def _user(container: Container, folder: Path) -> list[str]:
    """Return the arguments that choose the user.

    "Batch will map the user/group permission to the container. [...] run the task as pool scope with
    admin elevation level. This will ensure Batch runs the task as root in the container context."
    https://learn.microsoft.com/en-us/azure/batch/batch-docker-container-workloads
    """
    if container.admin:
        return []
    own(folder)
    return ["--user", f"{USER}:{USER}"]


def _options(container: Container, folder: Path) -> list[str]:
    words = shlex.split(container.settings.get("containerRunOptions", ""))
    # An emulated machine has no GPUs, and none of their devices.
    options = [o for o in words if o != "--rm" and not o.startswith("--device=/dev/")]
    # A container finds other nodes as its node does: they are loopback addresses here.
    network = [] if any(o.startswith("--net") for o in options) else ["--network", "host"]
    return [*_workdir(container, folder), *network, *options]


def _workdir(container: Container, folder: Path) -> list[str]:
    where = container.settings.get("workingDirectory", "taskWorkingDirectory")
    if where != "taskWorkingDirectory":
        return []
    return ["--workdir", str(folder / "wd")]


def removed(settings: Settings, name: str) -> None:
    """End a container and all in it."""
    run_podman(settings.podman, "rm", "--force", "--ignore", "--time", "0", name)
