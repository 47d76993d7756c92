"""Containers of a Blob service as folders: brought before a job, what is new taken back after it.

So does what the service mounted by blobfuse behave, seen from outside: a file is there when it has
been closed. What a job deletes stays in the container. https://github.com/Azure/azure-storage-fuse
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from runspec_emulators.batch_ai.settings import Settings
from runspec_emulators.batch_ai.storage.volumes import CannotMount, Volume
from runspec_emulators.frame.folders import list_below

CONTROLS = re.compile("[\\x00-\\x1f\\x7f]")  # in a name, Azurite fails with 500 at each list
VERSION = "2021-12-02"  # a version of the API that every Azurite in use knows


class Known(NamedTuple):
    """A file and its blob when they were the same."""

    etag: str
    mtime_ns: int
    size: int


class Mirror:
    """Remembers what folders and containers had in common."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Path, Known] = {}

    def pull(self, settings: Settings, volumes: Iterable[Volume]) -> None:
        """Copy new blobs from the containers to the folders; raise CannotMount if a container does not exist."""
        for volume in volumes:
            with self._lock, opened(settings, volume) as client:
                for blob in client.list_blobs() if client else ():
                    file = volume.folder / blob.name
                    known = self._known.get(file)
                    if known is None or known.etag != blob.etag:
                        self._bring(client, blob.name, file, blob.etag)

    def push(self, settings: Settings, volumes: Iterable[Volume]) -> None:
        """Copy new files from the folders to the containers."""
        for volume in volumes:
            with self._lock, opened(settings, volume) as client:
                for file in files(volume.folder) if client else ():
                    known, now = self._known.get(file), file.stat()
                    if known is None or known[1:] != (now.st_mtime_ns, now.st_size):
                        self._take(client, file, file.relative_to(volume.folder).as_posix())

    def _bring(self, client: Any, name: str, file: Path, etag: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.part")
        try:
            with part.open("wb") as out:
                client.download_blob(name).readinto(out)
        except ResourceNotFoundError:  # deleted since it was listed
            part.unlink()
            return
        part.rename(file)
        self._remember(file, etag)

    def _take(self, client: Any, file: Path, name: str) -> None:
        with file.open("rb") as data:
            made = client.upload_blob(name, data, overwrite=True)
        self._remember(file, made.get_blob_properties().etag)

    def _remember(self, file: Path, etag: str) -> None:
        now = file.stat()
        self._known[file] = Known(etag, now.st_mtime_ns, now.st_size)


def files(folder: Path) -> Iterator[Path]:
    """Yield the files in *folder* that a blob may be named after: names of blobs are text, those of files are bytes.

    https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
    """
    return (file for file in sorted(list_below(folder)) if is_text(file) and os.path.isfile(file))


def is_text(file: Path) -> bool:
    try:
        str(file).encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8: PEP 383
        return False
    return not CONTROLS.search(str(file))


@contextmanager
def opened(settings: Settings, volume: Volume) -> Iterator[ContainerClient | None]:
    """Return a client of the volume's container; None if the volume is a folder without one."""
    if volume.container is None or settings.blob_url is None:
        yield None
        return
    account, name = volume.container
    given: dict[str, Any] = {
        "account_url": settings.blob_url.format(account=account),
        "container_name": name,
        "credential": {"account_name": account, "account_key": settings.accounts.get(account, "")},
        "api_version": VERSION,
    }
    with ContainerClient(**given) as client:
        try:
            client.get_container_properties()
        except AzureError as exc:  # no such container, a wrong key, or no server
            raise CannotMount(f"{volume.at}: cannot mount {name} of {account}") from exc
        yield client
