"""Read and write the profile's Blob container, with one blob for each file of a folder, since Batch AI mounts it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import obstore
from obstore.store import AzureStore

from runspec_agent.base.light_typing import NamedTuple
from runspec_azure.errors import translated
from runspec_azure.session import clouds
from runspec_azure.store import Blobs
from runspec_batchai.options import BatchAiOptions
from runspec_jobs.provider import Bundle, CredentialsError, File, Progress, UsageError

SMALL_BYTES = 4 << 20
AT_ONCE = 16  # small files, which are held in memory
BLOCK_BYTES = 1 << 20
WHOLE = ".whole"  # the suffix of a blob that marks a folder as complete


class Own(NamedTuple):
    """The options that `Blobs` needs."""

    prefix: str
    storage_account: str | None
    storage_key: str | None
    container: str | None
    blob_url: str | None
    cloud: clouds.Name


class Account:
    """The options and the login with which `Blobs` accesses the account, if it has no key."""

    def __init__(self, options: Own) -> None:
        self.options = options

    @cached_property
    def login(self) -> Any:
        from runspec_azure.session import transport

        return transport.find_login(clouds.of(self.options))


class Store:
    """The blobs of the container."""

    def __init__(self, options: BatchAiOptions) -> None:
        self.options = options
        self._blobs: Blobs | None = None

    @property
    def blobs(self) -> Blobs:
        if self._blobs is None:
            if not self.named:
                what = "the profile has no `storage_account` or no `container`"
                raise UsageError(what, "see runspec docs azure-batch-ai")
            known = self.options
            key = known.secrets.get(known.storage_key)
            if key is not None and key.startswith("azure-kv:"):
                key = None  # only the service reads it, for mounts
            login = Own(
                known.prefix,
                known.storage_account,
                key,
                known.container,
                known.blob_url,
                clouds.of(known).name,
            )
            account: Any = Account(login)  # all that it needs
            self._blobs = Blobs(account, translated=self._translated)
        return self._blobs

    @contextlib.contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Translate errors, and add a hint with the settings of this provider if the account's key is refused."""
        try:
            with translated(action):
                yield
        except CredentialsError as exc:
            name = self.options.storage_key
            where = self.options.secrets.get(name, "env:NAME")
            hint = f"check that secrets: {{{name}: {where}}} is the key of {self.options.storage_account}"
            raise CredentialsError(exc.message, hint) from exc

    @property
    def named(self) -> bool:
        """Whether the profile names a container."""
        return bool(self.options.storage_account and self.options.container)

    @property
    def writable(self) -> bool:
        """Whether this machine has a key to write to the container."""
        key = self.options.secrets.get(self.options.storage_key)
        return self.named and key is not None and not key.startswith("azure-kv:")

    def look(self) -> str:
        """Return the name of any blob, or an empty string; raise an error if the container cannot be read."""
        return next((entry.key for entry in self.blobs.listing(self.options.prefix)), "")

    def has(self, prefix: str) -> bool:
        """Return whether the folder *prefix* is complete."""
        return self.blobs.size(prefix.rstrip("/") + WHOLE) is not None

    def empty(self, prefix: str) -> None:
        """Delete all blobs below *prefix*; first of all the mark that the folder is complete."""
        self.blobs.remove([prefix.rstrip("/") + WHOLE])
        self.blobs.empty(prefix)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the size of the blobs below *prefix* in bytes, by the first part of their names after it."""
        sizes: dict[str, int] = {}
        for blob in self.blobs.listing(prefix):
            name = blob.key.removeprefix(prefix).partition("/")[0].removesuffix(WHOLE)
            sizes[name] = sizes.get(name, 0) + blob.size
        return sizes

    def put_folder(self, prefix: str, bundle: Bundle, progress: Progress) -> None:
        """Upload each file of *bundle* below *prefix*, and then mark the folder as complete."""
        whole = sum(file.bytes for file in bundle.files)
        with self._translated(f"upload {prefix}"):
            self._put(prefix, bundle, progress, whole)
            self.blobs.put(prefix.rstrip("/") + WHOLE, b"")
        progress(whole, whole)

    def _put(self, prefix: str, bundle: Bundle, progress: Progress, whole: int) -> None:
        """Upload small files in parallel, and then large ones in blocks."""
        done, store = 0, self.blobs.native
        small = [file for file in bundle.files if file.bytes <= SMALL_BYTES]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for sent in threads.map(partial(_put_small, store, prefix, bundle), small):
                done += sent.bytes
                progress(done, whole)
        for file in bundle.files:
            if file.bytes > SMALL_BYTES:
                with bundle.open(file) as opened:
                    # Read to the end, where the content is verified.
                    blocks = iter(partial(opened.read, BLOCK_BYTES), b"")
                    self.blobs.put_blocks((prefix + file.path), blocks, file.bytes)
                done += file.bytes
                progress(done, whole)


def _put_small(store: AzureStore, prefix: str, bundle: Bundle, file: File) -> File:
    with bundle.open(file) as opened:
        content = opened.read()
    obstore.put(store, prefix + file.path, content, use_multipart=False)
    return file
