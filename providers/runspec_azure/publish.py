"""Plain names for what was saved: copies that the storage account makes itself, within itself."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from azure.storage.blob import ContainerClient

from runspec_azure.errors import translated
from runspec_azure.session.clients import refuse_plain
from runspec_azure.store import layout
from runspec_azure.store.blobs import AT_ONCE, Blobs
from runspec_jobs.provider import Copy, Publication, RemoteError, unpublished

# https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
NAME_LENGTH = 1024
# https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
CONTROLS = re.compile("[\\x00-\\x1f\\x7f\\x81]")
LOOK_S = 0.5  # between two looks at a copy that goes on


def publish(blobs: Blobs, run: str) -> list[str]:
    """Give the newest saves of *run* their plain names; return a line for each that Blob storage cannot have."""
    base = blobs.key("runs", run, "outputs", "")
    keys = [entry.key for entry in blobs.listing(base)]

    def read(wanted: Sequence[str]) -> list[bytes | None]:
        return blobs.read_all([key.removeprefix(f"{blobs.prefix}/") for key in wanted])

    refused: list[str] = []
    for left in unpublished(base, keys, read):
        refused += _finish(blobs, left)
    return [f"{key[len(base) :]!r} is no name of a blob" for key in refused]


def _finish(blobs: Blobs, left: Publication) -> list[str]:
    """Carry out *left*; return the names that no blob can have. The note comes last."""
    refused = [copy.target for copy in left.copies if not _is_name(copy.target)]
    blobs.put(left.key, left.begun())
    for key in filter(_is_name, left.stale):
        blobs.remove(key)
    wanted = [copy for copy in left.copies if copy.target not in refused]
    with _container(blobs) as container, ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda copy: _copy(container, copy), wanted))
    blobs.put(left.key, left.note(refused))
    return refused


def _container(blobs: Blobs) -> ContainerClient:
    options, end = blobs.options, layout.endpoint(blobs.options)
    who: Any = blobs.account_key
    if who:
        who = {"account_name": options.storage_account, "account_key": who}
    else:
        refuse_plain("blob_url", end)
        who = blobs.login
    return ContainerClient(end, options.container, credential=who, permit_redirects=False)


def _copy(container: ContainerClient, copy: Copy) -> None:
    """Have the account copy a blob of any size, which takes no rights beyond those to read and to write.

    It may go on after the answer: https://learn.microsoft.com/rest/api/storageservices/copy-blob
    """
    what = f"copy {copy.source} to {copy.target}"
    target = container.get_blob_client(copy.target)
    with translated(what):
        target.start_copy_from_url(container.get_blob_client(copy.source).url)
        while (status := target.get_blob_properties().copy.status) == "pending":
            time.sleep(LOOK_S)
    if status != "success":
        raise RemoteError(f"{what}: the store gave it up: {status}")


def _is_name(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return len(key) <= NAME_LENGTH and not CONTROLS.search(key)
