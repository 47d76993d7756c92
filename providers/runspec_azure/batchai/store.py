"""The profile's Blob container: folders as one blob a file, for Batch AI mounts it as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import obstore
from obstore.store import AzureStore

from runspec.provider import Bundle, File, Progress, UsageError
from runspec_azure.batchai.options import BatchAiOptions
from runspec_azure.blobs import Blobs
from runspec_azure.errors import translated

AT_ONCE = 32
AT_ONCE_BYTES = 64 << 20
WHOLE = ".whole"  # beside a folder: all of it is there


class Store:
    """What lies in the container."""

    def __init__(self, options: BatchAiOptions) -> None:
        self.options = options
        self._blobs: Blobs | None = None

    @property
    def blobs(self) -> Blobs:
        if self._blobs is None:
            if not (self.options.storage_account and self.options.container):
                what = "the profile names no storage_account or no container"
                raise UsageError(what, "see docs/azure-batch-ai.md")
            known = self.options
            own: Any = SimpleNamespace(
                prefix=known.prefix,
                storage_account=known.storage_account,
                storage_key=known.secrets.get(known.storage_key),
                container=known.container,
                blob_url=known.blob_url,
            )
            self._blobs = Blobs(SimpleNamespace(options=own))  # type: ignore[arg-type] # all it asks for
        return self._blobs

    def has(self, prefix: str) -> bool:
        return self.blobs.size(prefix.rstrip("/") + WHOLE) is not None

    def empty(self, prefix: str) -> None:
        """Remove all below *prefix*; that it is whole is no longer said first."""
        self.blobs.remove(prefix.rstrip("/") + WHOLE)
        self.blobs.empty(prefix)

    def put_folder(self, prefix: str, bundle: Bundle, progress: Progress) -> None:
        """Put each file of *bundle* below *prefix*, and at the end say that all are there."""
        whole = sum(file.bytes for file in bundle.files)
        with translated(f"upload {prefix}"):
            asyncio.run(self._put(prefix, bundle, progress, whole))
        self.blobs.put(prefix.rstrip("/") + WHOLE, b"")
        progress(whole, whole)

    async def _put(self, prefix: str, bundle: Bundle, progress: Progress, whole: int) -> None:
        done = 0
        store = self._store()
        for some in batches(bundle.files):
            contents = [(file, _read(bundle, file)) for file in some]
            puts = (obstore.put_async(store, prefix + f.path, data) for f, data in contents)
            await asyncio.gather(*puts)
            done += sum(file.bytes for file in some)
            progress(done, whole)

    def _store(self) -> AzureStore:
        known: AzureStore = self.blobs._store  # noqa: SLF001 - the same package's
        return known


def batches(files: Iterable[File]) -> Iterable[list[File]]:
    """Give *files* in lots that are sent at once, and fit into memory together."""
    some: list[File] = []
    for file in files:
        too_large = sum(f.bytes for f in some) + file.bytes > AT_ONCE_BYTES
        if some and (too_large or len(some) == AT_ONCE):
            yield some
            some = []
        some.append(file)
    if some:
        yield some


def _read(bundle: Bundle, file: File) -> bytes:
    with bundle.open(file) as opened:
        return opened.read()
