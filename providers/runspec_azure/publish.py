"""Publish outputs under plain names: the storage account copies the newest saves itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from azure.storage.blob import ContainerClient

from runspec_azure.errors import translated
from runspec_azure.session.clients import refuse_plain
from runspec_azure.store import layout
from runspec_azure.store.blobs import AT_ONCE, Blobs
from runspec_jobs.provider import Copy, RemoteError, publish as publish_outputs

# https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
NAME_LENGTH = 1024
# https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
# XML holds neither of the last two, so that no list could name the blob and nobody delete it.
CONTROLS = re.compile("[\\x00-\\x1f\\x7f\\x81\\ufffe\\uffff]")


def publish(blobs: Blobs, run: str, pause: Callable[[], None]) -> list[str]:
    """Copy the newest saves of *run* to their plain names; return a line for each name that is not valid.

    *pause* is called between two requests for the status of an unfinished copy.
    """
    base = blobs.key("runs", run, "outputs", "")
    keys = [entry.key for entry in blobs.listing(base)]
    refused = publish_outputs(_Container(blobs, pause), base, keys)
    return [f"{name!r} is not a valid blob name" for name in refused]


class _Container(NamedTuple):
    blobs: Blobs
    pause: Callable[[], None]

    def holds(self, key: str) -> bool:
        try:
            key.encode()
        except UnicodeEncodeError:
            return False
        return len(key) <= NAME_LENGTH and not CONTROLS.search(key)

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        return self.blobs.read_all([key.removeprefix(f"{self.blobs.prefix}/") for key in keys])

    def put(self, key: str, content: bytes) -> None:
        self.blobs.put(key, content)

    def remove_all(self, keys: Sequence[str], folder: str) -> None:
        del folder
        for key in keys:
            self.blobs.remove(key)

    def copy_all(self, copies: Sequence[Copy], folder: str) -> None:
        del folder
        with _container(self.blobs) as container, ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda copy: copy_blob(container, copy, self.pause), copies))


def _container(blobs: Blobs) -> ContainerClient:
    options, end = blobs.options, layout.endpoint(blobs.options)
    who: Any = blobs.account_key
    if who:
        who = {"account_name": options.storage_account, "account_key": who}
    else:
        refuse_plain("blob_url", end)
        who = blobs.login
    return ContainerClient(end, options.container, credential=who, permit_redirects=False)


def copy_blob(container: ContainerClient, copy: Copy, pause: Callable[[], None]) -> None:
    """Copy a blob of any size within the account, which needs no permissions except to read and to write.

    The copy may continue after the answer: https://learn.microsoft.com/rest/api/storageservices/copy-blob
    """
    what = f"copy {copy.source} to {copy.target}"
    target = container.get_blob_client(copy.target)
    with translated(what):
        target.start_copy_from_url(container.get_blob_client(copy.source).url)
        while (status := target.get_blob_properties().copy.status) == "pending":
            pause()
    if status != "success":
        raise RemoteError(f"{what}: the store stopped the copy: {status}")
