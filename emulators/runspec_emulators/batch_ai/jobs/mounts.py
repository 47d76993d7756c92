"""Which folders stand for the file shares, containers and file servers that mountVolumes names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runspec_emulators.batch_ai.storage.volumes import CannotMount, Volume
from runspec_emulators.batch_ai.world import World


def share(world: World, account: str, name: str) -> Path:
    """Return the folder that is a file share or a container."""
    chosen = world.settings.folders.get(f"{account}/{name}")
    return Path(chosen) if chosen else world.settings.folder / "storage" / account / name


def volumes(world: World, asked: Mapping[str, Any]) -> list[Volume]:
    """Return what MountVolumes asks for; raise CannotMount for what is not there."""
    volumes = []
    for given in asked.get("azureFileShares", ()):
        check_key(world, given)
        name, _, below = urlsplit(given["azureFileUrl"]).path.strip("/").partition("/")
        folder = share(world, given["accountName"], name) / below
        volumes.append(Volume(given["relativeMountPath"], folder))
    for given in asked.get("azureBlobFileSystems", ()):
        check_key(world, given)
        account, name = given["accountName"], given["containerName"]
        real = (account, name) if world.settings.blob_url else None
        volumes.append(Volume(given["relativeMountPath"], share(world, account, name), real))
    for given in asked.get("fileServers", ()):
        folder = file_server(world, given["fileServer"]["id"])
        below = given.get("sourceDirectory", "").strip("/")
        volumes.append(Volume(given["relativeMountPath"], folder / below))
    for given in asked.get("unmanagedFileSystems", ()):
        chosen = world.settings.unmanaged.get(given["mountCommand"])
        if chosen is None:
            raise CannotMount(f"{given['mountCommand']}: exit code 32")
        volumes.append(Volume(given["relativeMountPath"], Path(chosen)))
    for volume in volumes:
        if volume.at in world.settings.mount_failures:
            raise CannotMount(world.settings.mount_failures[volume.at])
        if Path(volume.at).is_absolute() or ".." in Path(volume.at).parts:
            raise CannotMount(f"{volume.at}: not a relative path")
    return volumes


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
