"""Where things lie: shares, containers and file servers as folders; what a job's variables say of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from runspec_emulators.azure.batchai.world import World

VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
OWN = re.compile(r"\$(?:\{(AZ_BATCHAI_\w+)\}|(AZ_BATCHAI_\w+))")


class CannotMount(Exception):
    """A volume cannot be mounted; the message says why."""


class Volume(NamedTuple):
    """One volume to mount."""

    at: str
    """relativeMountPath."""
    folder: Path
    container: tuple[str, str] | None = None
    """Account and name, where it is a container of a Blob service."""


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Put variables in, as a shell would.

    >>> expanded("$A/${B}/$C", {"A": "1", "B": "2"})
    '1/2/'
    """
    return VARIABLE.sub(lambda found: env.get(found[1] or found[2], ""), text)


def referenced(text: str, env: Mapping[str, str]) -> str:
    """Put the service's own variables into the value of a user's, and no others.

    "You can reference these environment variables in your training job configuration, such as command
    lines, input/output directories, and user defined environment variables":
    documentation/using-batchai-environment-variables.md.

    >>> referenced("$AZ_BATCHAI_X/$HOME", {"AZ_BATCHAI_X": "/x", "HOME": "/root"})
    '/x/$HOME'
    """
    return OWN.sub(lambda found: env.get(found[1] or found[2], found[0]), text)


def share(world: World, account: str, name: str) -> Path:
    """Give the folder that is a file share or a container."""
    chosen = world.settings.folders.get(f"{account}/{name}")
    return Path(chosen) if chosen else world.settings.folder / "storage" / account / name


def volumes(world: World, mounts: Mapping[str, Any]) -> list[Volume]:
    """Give what MountVolumes asks for; raise CannotMount for what is not there."""
    found = []
    for given in mounts.get("azureFileShares", ()):
        check_key(world, given)
        name, _, below = urlsplit(given["azureFileUrl"]).path.strip("/").partition("/")
        folder = share(world, given["accountName"], name) / below
        found.append(Volume(given["relativeMountPath"], folder))
    for given in mounts.get("azureBlobFileSystems", ()):
        check_key(world, given)
        account, name = given["accountName"], given["containerName"]
        real = (account, name) if world.settings.blob_url else None
        found.append(Volume(given["relativeMountPath"], share(world, account, name), real))
    for given in mounts.get("fileServers", ()):
        folder = file_server(world, given["fileServer"]["id"])
        below = given.get("sourceDirectory", "").strip("/")
        found.append(Volume(given["relativeMountPath"], folder / below))
    for given in mounts.get("unmanagedFileSystems", ()):
        chosen = world.settings.unmanaged.get(given["mountCommand"])
        if chosen is None:
            raise CannotMount(f"{given['mountCommand']}: exit code 32")
        found.append(Volume(given["relativeMountPath"], Path(chosen)))
    for volume in found:
        if volume.at in world.settings.mount_failures:
            raise CannotMount(world.settings.mount_failures[volume.at])
        if Path(volume.at).is_absolute() or ".." in Path(volume.at).parts:
            raise CannotMount(f"{volume.at}: not a relative path")
    return found


def check_key(world: World, given: Mapping[str, Any]) -> None:
    accounts = world.settings.accounts
    account, key = given["accountName"], given["credentials"].get("accountKey")
    if accounts and account not in accounts:
        raise CannotMount(f"{given['relativeMountPath']}: there is no account {account}")
    if accounts and key is not None and key != accounts[account]:
        raise CannotMount(f"{given['relativeMountPath']}: mount error(13): Permission denied")


def file_server(world: World, path: str) -> Path:
    for workspace in world.workspaces():
        for server in workspace.file_servers.values():
            if server.id.lower() == path.lower():
                return world.settings.folder / "servers" / workspace.name / server.name
    raise CannotMount(f"there is no file server {path}")


def mount(volume: Volume, root: Path) -> None:
    """Put a volume below *root*: on this machine, a link will do."""
    volume.folder.mkdir(parents=True, exist_ok=True)
    at = root / volume.at
    at.parent.mkdir(parents=True, exist_ok=True)
    if at.is_symlink():
        at.unlink()
    os.symlink(volume.folder, at)
