"""Read and write the files of jobs in Blob storage: upload folders, read outputs, and delete the files of a run."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import urlsplit

import obstore
from azure.core.credentials import TokenCredential
from azure.storage.blob import ContainerClient
from obstore import exceptions as bulk
from obstore.store import AzureStore

from runspec_agent.base.light_typing import NamedTuple
from runspec_azure import store_layout
from runspec_azure.errors import stream_broken, translated
from runspec_azure.session import clouds
from runspec_azure.session.clients import Session, refuse_plain, secret
from runspec_azure.session.clouds import STORAGE_SCOPE
from runspec_jobs.provider import Bundle, Conflict, OutputFile, Progress, RemoteError
from runspec_jobs.provider.saved_outputs import (
    MANIFEST,
    Copy,
    publish as publish_outputs,
    read_saved_outputs,
)
from runspec_jobs.provider.streams.object_streams import BodyReader
from runspec_jobs.provider.streams.tar_stream import tar_blocks, tar_bytes

if TYPE_CHECKING:
    from obstore import UpdateVersion


PART_BYTES = 8 << 20
PARTS = 50_000  # the limit of a blob: https://learn.microsoft.com/en-us/azure/storage/blobs/scalability-targets
NO_ETAG = '"0x0"'  # of no blob
STORE = "use a store with conditional writes, such as Azure Blob Storage"
AT_ONCE = 8  # parts, which are held in memory, or small blobs


class Entry(NamedTuple):
    """A blob with its full name, and when it was written, in seconds since 1970; None if that is unknown."""

    key: str
    size: int
    modified_s: float | None = None


class Blobs:
    """The blobs of the container under the prefix of the profile."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.options = session.options
        self.prefix: str = session.options.prefix

    @cached_property
    def account_key(self) -> str | None:
        return secret(self.options.storage_key)

    @property
    def login(self) -> TokenCredential:
        return self.session.login

    @cached_property
    def store(self) -> AzureStore:
        end = store_layout.endpoint(self.options)
        login: dict[str, Any] = {"account_key": self.account_key} if self.account_key else {}
        if not login:
            refuse_plain("blob_url", end)
            login["credential_provider"] = self._token
        with translated("open the store"):
            return AzureStore(
                self.options.container,
                account_name=self.options.storage_account,
                endpoint=end,
                client_options={
                    "allow_http": urlsplit(end).scheme == "http",
                    "timeout": timedelta(minutes=10),
                },
                **login,
            )

    def _token(self) -> Any:
        token = self.session.login.get_token(STORAGE_SCOPE)
        expires = datetime.fromtimestamp(token.expires_on, UTC)
        return {"token": token.token, "expires_at": expires}

    def key(self, *parts: str) -> str:
        return "/".join((self.prefix, *parts))

    def read(self, *parts: str) -> bytes | None:
        """Return the content of a small blob, or None."""
        return self.part(self.key(*parts), 0, None)

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the content of small blobs, which are read in parallel."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self.read, keys))

    def names(self, *parts: str) -> list[str]:
        """Return the names of all blobs below *parts*, whose last part is empty or ends with a slash."""
        prefix = self.key(*parts)
        return [entry.key[len(prefix) :] for entry in self.listing(prefix)]

    def part(self, key: str, start: int, end: int | None) -> bytes | None:
        """Return the bytes of a blob from *start* up to *end*; None if the blob does not exist."""
        if end is not None and end <= start:
            return b""
        try:
            with translated(f"read {key}"), _known():
                if end is None:
                    return bytes(obstore.get(self.store, key).bytes())
                return bytes(obstore.get_range(self.store, key, start=start, end=end))
        except FileNotFoundError:
            return None

    def size(self, key: str) -> int | None:
        """Return the size of a blob in bytes; None if it does not exist."""
        try:
            with translated(f"look for {key}"), _known():
                return int(obstore.head(self.store, key)["size"])
        except FileNotFoundError:
            return None

    def put(self, key: str, content: bytes) -> None:
        with self._contained(), translated(f"write {key}"):
            obstore.put(self.store, key, content, use_multipart=False)

    def put_new(self, content: bytes, *parts: str) -> bool:
        """Write a small blob if it does not exist; return whether it was written."""
        key = self.key(*parts)
        try:
            with self._contained(), translated(f"write {key}"), _known(), _unless_there():
                obstore.put(self.store, key, content, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True

    @property
    def on_azure(self) -> bool:
        """Whether the container is at Azure, and not in a compatible store at an endpoint of its own."""
        return clouds.of_url(store_layout.endpoint(self.options)) is not None

    def refuse_without_conditions(self, content: bytes, *parts: str) -> None:
        """Raise RemoteError if the store does not refuse to write a blob that is there, or that has changed.

        The blob has *content* already. Azure has both conditions; a store that ignores them would let two jobs of one
        run both run, and two machines each overwrite what the other has saved.
        """
        writes = {
            "If-None-Match": partial(self.put_new, content, *parts),
            "If-Match": partial(self._put_over, content, NO_ETAG, *parts),
        }
        for header, write in writes.items():
            if write():
                message = f"the store of container {self.options.container} does not obey {header}"
                raise RemoteError(f"{message}: two jobs of one run could both run", STORE)

    def _put_over(self, content: bytes, etag: str, *parts: str) -> bool:
        """Write a small blob if it has *etag*; return whether it was written."""
        key, version = self.key(*parts), cast("UpdateVersion", {"e_tag": etag})
        try:
            with self._contained(), translated(f"write {key}"), _known(), _unless_there():
                obstore.put(self.store, key, content, mode=version, use_multipart=False)
        except FileExistsError:
            return False
        return True

    def put_folder(self, key: str, bundle: Bundle, progress: Progress) -> None:
        """Write the content of *bundle* at *key* as one tar, completely or not at all.

        The tar is made while it is sent. The service deletes the blocks of an unfinished upload
        within a week.
        https://learn.microsoft.com/en-us/rest/api/storageservices/put-block#remarks
        """
        whole = sum(file.bytes for file in bundle.files)
        self.put_blocks(key, tar_blocks(bundle, progress), tar_bytes(bundle))
        progress(whole, whole)

    def put_blocks(self, key: str, blocks: Iterator[bytes], count: int) -> None:
        """Write a blob of *count* bytes from an iterator, completely or not at all."""
        part = max(PART_BYTES, -(-count // PARTS))
        with self._contained(), translated(f"upload {key}"):
            obstore.put(self.store, key, blocks, chunk_size=part, max_concurrency=AT_ONCE)

    @contextlib.contextmanager
    def _contained(self) -> Iterator[None]:
        """Raise RemoteError if a blob cannot be written or listed because the container does not exist."""
        try:
            yield
        except FileNotFoundError:
            name, account = self.options.container, self.options.storage_account
            hint = f"create it (az storage container create --name {name} --account-name {account})"
            message = f"there is no container {name} in the account {account}"
            raise RemoteError(message, f"{hint}, or set another one in the profile") from None

    def remove(self, key: str) -> None:
        try:
            with translated(f"delete {key}"), _known():
                obstore.delete(self.store, key)
        except FileNotFoundError:
            pass

    def listing(self, prefix: str) -> Iterator[Entry]:
        """Yield every blob whose name begins with *prefix*, a folder of names."""
        with self._contained(), translated(f"list {prefix}"):
            for page in obstore.list(self.store, prefix.rstrip("/")):
                for entry in page:
                    if entry["path"].startswith(prefix):
                        modified_s = entry["last_modified"].timestamp()
                        yield Entry(entry["path"], int(entry["size"]), modified_s)

    def folders(self, prefix: str) -> list[str]:
        """Return the names directly below *prefix* that have blobs below them."""
        with self._contained(), translated(f"list {prefix}"):
            answer = obstore.list_with_delimiter(self.store, prefix.rstrip("/"))
            return [name.rstrip("/").rpartition("/")[2] for name in answer["common_prefixes"]]

    def empty(self, prefix: str) -> None:
        """Delete every blob whose name begins with *prefix*."""
        assert prefix.strip("/"), "BUG: this would delete everything in the container"
        keys = [entry.key for entry in self.listing(prefix)]
        try:
            with translated(f"delete {prefix}*"), _known():
                if keys:
                    obstore.delete(self.store, keys)
        except FileNotFoundError:
            for key in keys:  # another process is deleting them, too
                self.remove(key)

    def outputs(self, run: str) -> list[OutputFile]:
        base = self.key("runs", run, "outputs", "")
        entries = ((entry.key, entry.size) for entry in self.listing(base))
        return read_saved_outputs(base, entries, self.open_blob)

    def open_blob(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        """Return a file of the bytes from *start* up to *end*."""
        if start == end:
            return io.BytesIO()
        # A reader asks for the size first, and a manifest may be replaced after that: one request reads it.
        if end is None and not key.endswith(MANIFEST):
            with _streamed(key):
                body: Any = obstore.open_reader(self.store, key)
                return io.BufferedReader(BodyReader(body, partial(_streamed, key)))
        data = self.part(key, start, end)
        if data is None:
            raise Conflict(f"{key} has been deleted")
        return io.BytesIO(data)


@contextlib.contextmanager
def _known() -> Iterator[None]:
    """Raise FileNotFoundError, which `translated` does not change, if a blob does not exist."""
    try:
        yield
    except (bulk.NotFoundError, FileNotFoundError):
        raise FileNotFoundError from None


@contextlib.contextmanager
def _unless_there() -> Iterator[None]:
    """Raise FileExistsError, which `translated` does not change, if a blob exists already."""
    try:
        yield
    except (bulk.AlreadyExistsError, bulk.PreconditionError, FileExistsError):
        raise FileExistsError from None


@contextlib.contextmanager
def _streamed(key: str) -> Iterator[None]:
    """Translate errors of a stream of obstore to the errors of `Client.call`."""
    try:
        with translated(f"read {key}"):
            yield
    except FileNotFoundError:
        raise Conflict(f"{key} has been deleted") from None
    except OSError as exc:
        raise stream_broken(f"read {key}", exc) from exc


# Publish outputs under plain names: the storage account copies the newest saves itself.


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
            # A file name with bytes that are not UTF-8 cannot be a name of a blob.
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
    options, end = blobs.options, store_layout.endpoint(blobs.options)
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
    message = f"copy {copy.source} to {copy.target}"
    target = container.get_blob_client(copy.target)
    with translated(message):
        target.start_copy_from_url(container.get_blob_client(copy.source).url)
        while (status := target.get_blob_properties().copy.status) == "pending":
            pause()
    if status != "success":
        raise RemoteError(f"{message}: the store stopped the copy: {status}")
