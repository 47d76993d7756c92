"""Containers of a Blob service as folders: brought before a job, what is new taken back after it.

So does what the service mounted by blobfuse behave, seen from outside: a file is there when it has
been closed. https://github.com/Azure/azure-storage-fuse
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runspec_rehearsal.azure.batchai.places import Volume
from runspec_rehearsal.azure.batchai.settings import Settings

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

VERSION = "2021-12-02"  # one that every Azurite in use knows


def pull(settings: Settings, volumes: Iterable[Volume]) -> None:
    """Bring what containers hold and their folders do not."""
    for volume, client in opened(settings, volumes):
        for blob in client.list_blobs():
            file = volume.folder / blob.name
            if not file.exists() or file.stat().st_mtime < blob.last_modified.timestamp():
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("wb") as out:
                    client.download_blob(blob.name).readinto(out)


def push(settings: Settings, volumes: Iterable[Volume]) -> None:
    """Take what folders hold, and their containers do not, or have otherwise."""
    for volume, client in opened(settings, volumes):
        known = {blob.name: blob for blob in client.list_blobs()}
        for file in files(volume.folder):
            name = file.relative_to(volume.folder).as_posix()
            there = known.get(name)
            newer = there and file.stat().st_mtime > there.last_modified.timestamp()
            if there is None or newer or there.size != file.stat().st_size:
                with file.open("rb") as data:
                    client.upload_blob(name, data, overwrite=True)


def files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*")) if file.is_file())


def opened(
    settings: Settings, volumes: Iterable[Volume]
) -> Iterator[tuple[Volume, ContainerClient]]:
    for volume in volumes:
        if volume.container is None or settings.blob_url is None:
            continue
        from azure.storage.blob import ContainerClient

        account, name = volume.container
        given: dict[str, Any] = {
            "account_url": settings.blob_url.format(account=account),
            "container_name": name,
            "credential": {
                "account_name": account,
                "account_key": settings.accounts.get(account, ""),
            },
            "api_version": VERSION,
        }
        with ContainerClient(**given) as client:
            yield volume, client
