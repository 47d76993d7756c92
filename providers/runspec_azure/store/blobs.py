"""The files of jobs in Blob storage: folders put there, outputs taken back, and all of a run removed."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

import obstore
from azure.core.credentials import TokenCredential
from obstore import exceptions as bulk
from obstore.store import AzureStore

from runspec_azure.errors import stream_broken, translated
from runspec_azure.session.clients import Session, refuse_plain, secret
from runspec_azure.session.clouds import STORAGE_SCOPE
from runspec_azure.store import layout
from runspec_jobs.provider import (
    BodyReader,
    Bundle,
    Conflict,
    OutputFile,
    Progress,
    RemoteError,
    read_saved_outputs,
    tar_blocks,
    tar_bytes,
)

PART_BYTES = 8 << 20
PARTS = 50_000  # at most. https://learn.microsoft.com/en-us/azure/storage/blobs/scalability-targets
AT_ONCE = 8  # parts, each of which is in memory; and small blobs


class Entry(NamedTuple):
    """A blob, by its whole name."""

    key: str
    size: int


class Blobs:
    """What lies in the container under the prefix of the profile."""

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
    def _store(self) -> AzureStore:
        end = layout.endpoint(self.options)
        own: dict[str, Any] = {"account_key": self.account_key} if self.account_key else {}
        if not own:
            refuse_plain("blob_url", end)
            own["credential_provider"] = self._token
        with translated("open the store"):
            return AzureStore(
                self.options.container,
                account_name=self.options.storage_account,
                endpoint=end,
                client_options={
                    "allow_http": urlsplit(end).scheme == "http",
                    "timeout": timedelta(minutes=10),
                },
                **own,
            )

    def _token(self) -> Any:
        found = self.session.login.get_token(STORAGE_SCOPE)
        expires = datetime.fromtimestamp(found.expires_on, UTC)
        return {"token": found.token, "expires_at": expires}

    def key(self, *parts: str) -> str:
        return "/".join((self.prefix, *parts))

    def read(self, *parts: str) -> bytes | None:
        """Return the content of a small blob, or None."""
        return self.part(self.key(*parts), 0, None)

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the content of small blobs, some at a time: one after the other, each would cost a round trip."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self.read, keys))

    def names(self, *parts: str) -> list[str]:
        """Return the names of all blobs below *parts*, which end with a slash."""
        prefix = self.key(*parts)
        return [entry.key[len(prefix) :] for entry in self.listing(prefix)]

    def part(self, key: str, start: int, end: int | None) -> bytes | None:
        """Return the bytes of a blob from *start* up to *end*; None where there is none."""
        if end is not None and end <= start:
            return b""
        try:
            with translated(f"read {key}"), _known():
                if end is None:
                    return bytes(obstore.get(self._store, key).bytes())
                return bytes(obstore.get_range(self._store, key, start=start, end=end))
        except FileNotFoundError:
            return None

    def size(self, key: str) -> int | None:
        """Return how many bytes a blob has; None where there is none."""
        try:
            with translated(f"look for {key}"), _known():
                return int(obstore.head(self._store, key)["size"])
        except FileNotFoundError:
            return None

    def put(self, key: str, content: bytes) -> None:
        with self._contained(), translated(f"write {key}"):
            obstore.put(self._store, key, content, use_multipart=False)

    def put_new(self, content: bytes, *parts: str) -> bool:
        """Put a small blob where none is; say whether there was none."""
        key = self.key(*parts)
        try:
            with self._contained(), translated(f"write {key}"), _known(), _unless_there():
                obstore.put(self._store, key, content, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True

    def put_folder(self, key: str, bundle: Bundle, progress: Progress) -> None:
        """Put the content of *bundle* at *key*, as one tar, whole or not at all.

        The tar is made while it is sent. Blocks that were sent for nothing are forgotten by the
        service within a week.
        https://learn.microsoft.com/en-us/rest/api/storageservices/put-block#remarks
        """
        whole = sum(file.bytes for file in bundle.files)
        self.put_blocks(key, tar_blocks(bundle, progress), tar_bytes(bundle))
        progress(whole, whole)

    def put_blocks(self, key: str, blocks: Iterator[bytes], count: int) -> None:
        """Put a blob of *count* bytes while they come, whole or not at all."""
        part = max(PART_BYTES, -(-count // PARTS))
        with self._contained(), translated(f"upload {key}"):
            obstore.put(self._store, key, blocks, chunk_size=part, max_concurrency=AT_ONCE)

    @contextlib.contextmanager
    def _contained(self) -> Iterator[None]:
        """Yield what it means that what is written, or listed, was not found."""
        try:
            yield
        except FileNotFoundError:
            name, account = self.options.container, self.options.storage_account
            hint = f"az storage container create --name {name} --account-name {account}"
            what = f"there is no container {name} in the account {account}"
            raise RemoteError(what, f"{hint}, or name another in the profile") from None

    def remove(self, key: str) -> None:
        try:
            with translated(f"remove {key}"), _known():
                obstore.delete(self._store, key)
        except FileNotFoundError:
            pass

    def listing(self, prefix: str) -> Iterator[Entry]:
        """Yield every blob whose name begins with *prefix*, a folder of names."""
        with self._contained(), translated(f"list {prefix}"):
            for page in obstore.list(self._store, prefix.rstrip("/")):
                for found in page:
                    if found["path"].startswith(prefix):
                        yield Entry(found["path"], int(found["size"]))

    def folders(self, prefix: str) -> list[str]:
        """Return the names directly below *prefix* that have blobs below them."""
        with self._contained(), translated(f"list {prefix}"):
            found = obstore.list_with_delimiter(self._store, prefix.rstrip("/"))
            return [name.rstrip("/").rpartition("/")[2] for name in found["common_prefixes"]]

    def empty(self, prefix: str) -> None:
        """Remove every blob whose name begins with *prefix*."""
        assert prefix.strip("/"), "BUG: this would empty the container"
        keys = [found.key for found in self.listing(prefix)]
        try:
            with translated(f"empty {prefix}"), _known():
                if keys:
                    obstore.delete(self._store, keys)
        except FileNotFoundError:
            for key in keys:  # somebody else is removing them, too
                self.remove(key)

    def outputs(self, run: str) -> list[OutputFile]:
        base = self.key("runs", run, "outputs", "")
        return read_saved_outputs(base, self.listing(base), self._open)

    def _open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        """Open the bytes from *start* up to *end*."""
        if start == end:
            return io.BytesIO()
        with _streamed(key):
            if end is None:
                body: Any = obstore.open_reader(self._store, key)
                return io.BufferedReader(BodyReader(body, partial(_streamed, key)))
        data = self.part(key, start, end)
        if data is None:
            raise Conflict(f"{key} has been taken away")
        return io.BytesIO(data)


@contextlib.contextmanager
def _known() -> Iterator[None]:
    """Let what is no failure through `translated`: that nothing is there."""
    try:
        yield
    except (bulk.NotFoundError, FileNotFoundError):
        raise FileNotFoundError from None


@contextlib.contextmanager
def _unless_there() -> Iterator[None]:
    """Let through `translated` that something is there, which is no failure where a blob is put unless one is."""
    try:
        yield
    except (bulk.AlreadyExistsError, bulk.PreconditionError, FileExistsError):
        raise FileExistsError from None


@contextlib.contextmanager
def _streamed(key: str) -> Iterator[None]:
    """Raise what a stream of obstore raises in the words of `Client.call`."""
    try:
        with translated(f"read {key}"):
            yield
    except FileNotFoundError:
        raise Conflict(f"{key} has been taken away") from None
    except OSError as exc:
        raise stream_broken(f"read {key}", exc) from exc
