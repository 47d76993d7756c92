"""The files of jobs in Blob storage: folders put there, outputs taken back, and all of a run removed."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, BinaryIO, NamedTuple

import obstore
from obstore import exceptions as bulk
from obstore.store import AzureStore

from runspec.provider import (
    Bundle,
    Conflict,
    OutputFile,
    Progress,
    saved_outputs,
    tar_blocks,
    tar_bytes,
)
from runspec_azure import stores
from runspec_azure.errors import translated
from runspec_azure.session import Session, secret

PART_BYTES = 8 << 20
PARTS = 50_000  # at most. https://learn.microsoft.com/en-us/azure/storage/blobs/scalability-targets
AT_ONCE = 8  # parts, each of which is in memory
SCOPE = "https://storage.azure.com/.default"
LONGEST_S = 7 * 86_400  # of a user delegation key
# https://learn.microsoft.com/en-us/rest/api/storageservices/get-user-delegation-key
EARLY_S = 900  # clocks differ


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
        self._signed: dict[tuple[str, str], str] = {}

    @cached_property
    def _key(self) -> str | None:
        return secret(self.options.storage_key)

    @cached_property
    def _store(self) -> AzureStore:
        end = stores.endpoint(self.options)
        own: dict[str, Any] = {"account_key": self._key} if self._key else {}
        if not own:
            own["credential_provider"] = self._token
        with translated("open the store"):
            return AzureStore(
                self.options.container,
                account_name=self.options.storage_account,
                endpoint=end,
                client_options={
                    "allow_http": end.startswith("http://"),
                    "timeout": timedelta(minutes=10),
                },
                **own,
            )

    def _token(self) -> Any:
        found = self.session.login.get_token(SCOPE)
        expires = datetime.fromtimestamp(found.expires_on, UTC)
        return {"token": found.token, "expires_at": expires}

    def key(self, *parts: str) -> str:
        return "/".join((self.prefix, *parts))

    def read(self, *parts: str) -> bytes | None:
        """Give the content of a small blob, or None."""
        return self.part(self.key(*parts), 0, None)

    def part(self, key: str, start: int, end: int | None) -> bytes | None:
        """Give the bytes of a blob from *start* up to *end*; None where there is none."""
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
        """Give how many bytes a blob has; None where there is none."""
        try:
            with translated(f"look for {key}"), _known():
                return int(obstore.head(self._store, key)["size"])
        except FileNotFoundError:
            return None

    def put(self, key: str, content: bytes) -> None:
        with translated(f"write {key}"):
            obstore.put(self._store, key, content, use_multipart=False)

    def put_new(self, content: bytes, *parts: str) -> bool:
        """Put a small blob where none is; say whether there was none."""
        key = self.key(*parts)
        try:
            with translated(f"write {key}"), _known():
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
        part = max(PART_BYTES, -(-tar_bytes(bundle) // PARTS))
        with translated(f"upload {key}"):
            blocks = tar_blocks(bundle, progress)
            obstore.put(self._store, key, blocks, chunk_size=part, max_concurrency=AT_ONCE)
        progress(whole, whole)

    def remove(self, key: str) -> None:
        try:
            with translated(f"remove {key}"), _known():
                obstore.delete(self._store, key)
        except FileNotFoundError:
            pass

    def listing(self, prefix: str) -> Iterator[Entry]:
        """Give every blob whose name begins with *prefix*, a folder of names."""
        with translated(f"list {prefix}"):
            for page in obstore.list(self._store, prefix.rstrip("/")):
                for found in page:
                    if found["path"].startswith(prefix):
                        yield Entry(found["path"], int(found["size"]))

    def folders(self, prefix: str) -> list[str]:
        """Give the names directly below *prefix* that have blobs below them."""
        with translated(f"list {prefix}"):
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
        return saved_outputs(base, self.listing(base), self._open)

    def _open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        """Open the bytes from *start* up to *end*."""
        if start == end:
            return io.BytesIO()
        with translated(f"read {key}"):
            if end is None:
                body: Any = obstore.open_reader(self._store, key)
                return io.BufferedReader(_Reading(body, key))
        data = self.part(key, start, end)
        if data is None:
            raise Conflict(f"{key} has been taken away")
        return io.BytesIO(data)

    def with_urls(self, value: Any) -> Any:
        """Give *value* with what is signed for every `{"$signed": ...}`; not to be kept anywhere."""
        if isinstance(value, Mapping):
            if value.keys() == {"$signed"}:
                return self._sign(value["$signed"])
            return {k: self.with_urls(v) for k, v in value.items()}
        return [self.with_urls(v) for v in value] if isinstance(value, list) else value

    def _sign(self, words: str) -> str:
        """`racwdl` gives the query alone, `url racwdl` the container's URL, `r KEY` a blob's."""
        base = f"{stores.endpoint(self.options)}/{self.options.container}"
        rights, _, key = words.removeprefix("url ").partition(" ")
        query = self._query(rights, key)
        if key:
            return f"{base}/{key}?{query}"
        return f"{base}?{query}" if words.startswith("url ") else query

    def _query(self, rights: str, key: str) -> str:
        if (rights, key) not in self._signed:
            with translated("sign for the job"):
                self._signed[rights, key] = self._made(rights, key)
        return self._signed[rights, key]

    def _made(self, rights: str, key: str) -> str:
        """https://learn.microsoft.com/en-us/rest/api/storageservices/create-service-sas"""
        from azure.storage.blob import generate_blob_sas, generate_container_sas

        plain = stores.endpoint(self.options).startswith("http://")
        wanted_s = self.options.signed_for
        own: dict[str, Any] = {
            "account_name": self.options.storage_account,
            "container_name": self.options.container,
            "permission": rights,
            "protocol": None if plain else "https",
        }
        if self._key:
            own["account_key"] = self._key
        else:
            wanted_s = min(wanted_s, LONGEST_S - EARLY_S)
            own["user_delegation_key"] = self._delegated(wanted_s)
        own["expiry"] = datetime.now(UTC) + timedelta(seconds=wanted_s)
        if key:
            return generate_blob_sas(blob_name=key, **own)
        return generate_container_sas(**own)

    def _delegated(self, wanted_s: float) -> Any:
        from azure.storage.blob import BlobServiceClient

        now = datetime.now(UTC)
        end = stores.endpoint(self.options)
        with BlobServiceClient(end, credential=self.session.login) as client:
            start = now - timedelta(seconds=EARLY_S)
            return client.get_user_delegation_key(start, now + timedelta(seconds=wanted_s))


@contextlib.contextmanager
def _known() -> Iterator[None]:
    """Let what is no failure through `translated`: nothing there, or something."""
    try:
        yield
    except (bulk.NotFoundError, FileNotFoundError):
        raise FileNotFoundError from None
    except (bulk.AlreadyExistsError, bulk.PreconditionError, FileExistsError):
        raise FileExistsError from None


class _Reading(io.RawIOBase):
    """A blob that is read as it comes."""

    def __init__(self, body: Any, key: str) -> None:
        self.body, self.key = body, key

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with translated(f"read {self.key}"):
            data = bytes(self.body.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)
