"""The store of jobs as this machine reaches it: S3 and Blob storage by obstore. Keys are below its prefix."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, BinaryIO, Protocol
from urllib.parse import urlsplit

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import (
    Bundle,
    Conflict,
    CredentialsError,
    NoAnswer,
    OutputFile,
    Progress,
    RemoteError,
    UsageError,
)
from runspec_jobs.provider.saved_outputs import (
    MANIFEST,
    Copy,
    publish as publish_outputs,
    read_saved_outputs,
)
from runspec_jobs.provider.streams.object_streams import BodyReader
from runspec_jobs.provider.streams.tar_stream import tar_blocks, tar_bytes
from runspec_kubernetes.options import KubernetesOptions

PART_BYTES = 8 << 20
PARTS = 10_000  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
AT_ONCE = 8
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html; S3 answers with 400 here.
EXPIRED = ("ExpiredToken", "InvalidToken", "TokenRefreshRequired")
TIMEOUT_S = 600.0  # of one request, which may carry a large file
COPY_BYTES = 5 << 30  # that one request of S3 copies
KEY_BYTES = 1024  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
# What a name may not contain: obstore refuses control characters, empty parts, . and .., and no list has the last two.
UNFIT = re.compile("[\\x00-\\x1f\\x7f\\x81\\ufffe\\uffff]|//|(^|/)\\.{1,2}(/|$)|/$")
SECRETS = re.compile(r"(?i)(sig|x-amz-[a-z-]*|signature)=[^&\s]+")
LOGIN = "check store_keys in the profile, or the login of this machine for the store"


class Entry(NamedTuple):
    """An object with its key below the prefix of the store."""

    key: str
    size: int


class RunStore(Protocol):
    """What the client needs of a store. Every method raises the errors of `Client.call`."""

    def read(self, key: str) -> bytes | None:
        """Return the content of a small object, or None."""

    def size(self, key: str) -> int | None:
        """Return the number of bytes of an object, or None."""

    def part(self, key: str, start: int, end: int | None) -> bytes | None:
        """Return the bytes from *start* up to *end*, or None if the object does not exist."""

    def put(self, key: str, content: bytes) -> None: ...

    def put_new(self, key: str, content: bytes) -> bool:
        """Write an object if it does not exist; return whether it was written."""

    def put_blocks(self, key: str, blocks: Iterator[bytes], count: int) -> None:
        """Write an object of *count* bytes, completely or not at all."""

    def remove(self, keys: Sequence[str]) -> None:
        """Delete those of *keys* that exist."""

    def listing(self, prefix: str) -> Iterator[Entry]:
        """Yield every object whose key begins with *prefix*, which ends with a slash."""

    def copy(self, source: str, target: str) -> None: ...

    def opened(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO: ...


class ObjectStore:
    """A bucket of S3 or a container of Azure."""

    def __init__(self, options: KubernetesOptions, secrets: Mapping[str, str]) -> None:
        self.options, self.secrets = options, secrets
        kind, _, place = (options.store or "").partition("://")
        self.account, _, rest = place.partition("/") if kind == "az" else ("", "", place)
        self.bucket, _, self.prefix = rest.partition("/")
        self.kind = kind
        self.native = self._open()

    @property
    def endpoint(self) -> str | None:
        return self.options.store_url

    def _open(self) -> Any:
        import obstore.store as stores

        end = self.endpoint
        config: dict[str, Any] = {"endpoint": end} if end else {}
        plain = urlsplit(end or "").scheme == "http"
        client: Any = {"allow_http": plain, "timeout": timedelta(seconds=TIMEOUT_S)}
        with refused("open the store"):
            if self.kind == "s3":
                login = self._s3_login()
                return stores.S3Store(
                    self.bucket,
                    region=self.options.region or "us-east-1",
                    client_options=client,
                    virtual_hosted_style_request=False,
                    **config,
                    **login,
                )
            key = self.secrets.get("AZURE_STORAGE_KEY")
            return stores.AzureStore(
                self.bucket,
                account_name=self.account,
                client_options=client,
                **config,
                **({"account_key": key} if key else self._azure_login()),
            )

    def _s3_login(self) -> dict[str, Any]:
        names = {
            "access_key_id": "AWS_ACCESS_KEY_ID",
            "secret_access_key": "AWS_SECRET_ACCESS_KEY",
            "session_token": "AWS_SESSION_TOKEN",
        }
        given = {key: self.secrets[name] for key, name in names.items() if name in self.secrets}
        if given:
            return given
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except (
            ImportError
        ):  # without boto3, obstore reads the variables and the metadata of a machine
            return {}
        try:
            return {"credential_provider": Boto3CredentialProvider()}
        except ValueError as exc:
            raise CredentialsError(f"there is no login for {self.options.store}", LOGIN) from exc

    def _azure_login(self) -> dict[str, Any]:
        try:
            from obstore.auth.azure import AzureCredentialProvider
        except ImportError:
            return {"use_azure_cli": True}
        return {"credential_provider": AzureCredentialProvider()}

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def read(self, key: str) -> bytes | None:
        return self.part(key, 0, None)

    def size(self, key: str) -> int | None:
        import obstore

        try:
            with refused(f"look for {key}"):
                return int(obstore.head(self.native, self._key(key))["size"])
        except FileNotFoundError:
            return None

    def part(self, key: str, start: int, end: int | None) -> bytes | None:
        import obstore

        if end is not None and end <= start:
            return b""
        try:
            with refused(f"read {key}"):
                if end is None and not start:
                    return bytes(obstore.get(self.native, self._key(key)).bytes())
                if end is None:
                    end = int(obstore.head(self.native, self._key(key))["size"])
                    if end <= start:
                        return b""
                return bytes(obstore.get_range(self.native, self._key(key), start=start, end=end))
        except FileNotFoundError:
            return None

    def put(self, key: str, content: bytes) -> None:
        import obstore

        with self._contained(), refused(f"write {key}"):
            obstore.put(self.native, self._key(key), content, use_multipart=False)

    def put_new(self, key: str, content: bytes) -> bool:
        import obstore

        try:
            with self._contained(), refused(f"write {key}"):
                obstore.put(
                    self.native, self._key(key), content, mode="create", use_multipart=False
                )
        except FileExistsError:
            return False
        return True

    def put_blocks(self, key: str, blocks: Iterator[bytes], count: int) -> None:
        import obstore

        part = max(PART_BYTES, -(-count // PARTS))
        with self._contained(), refused(f"upload {key}"):
            obstore.put(
                self.native, self._key(key), blocks, chunk_size=part, max_concurrency=AT_ONCE
            )

    def remove(self, keys: Sequence[str]) -> None:
        import obstore

        try:
            with refused("delete objects"):
                if keys:
                    obstore.delete(self.native, [self._key(key) for key in keys])
        except FileNotFoundError:  # another process deletes them, too
            for key in keys:
                with contextlib.suppress(FileNotFoundError), refused(f"delete {key}"):
                    obstore.delete(self.native, self._key(key))

    def listing(self, prefix: str) -> Iterator[Entry]:
        import obstore

        begin = self._key(prefix)
        with self._contained(), refused(f"list {prefix}"):
            for page in obstore.list(self.native, begin.rstrip("/")):
                for entry in page:
                    if entry["path"].startswith(begin):
                        yield Entry(entry["path"][len(self.prefix) + 1 :], int(entry["size"]))

    def copy(self, source: str, target: str) -> None:
        """Let the service copy an object; one that is too large for that goes through this machine.

        https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html
        """
        import obstore

        try:
            with gone(source), refused(f"copy {source} to {target}"):
                obstore.copy(self.native, self._key(source), self._key(target))
        except RemoteError:
            size = self.size(source)
            if size is None or size <= COPY_BYTES:
                raise
            with self.opened(source) as body:
                self.put_blocks(target, _read_elsewhere(body), size)

    def opened(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        import obstore

        if start == end:
            return io.BytesIO()
        # A manifest may be replaced between two requests: one reads it.
        if end is None and not start and not key.endswith(MANIFEST):
            with gone(key), refused(f"read {key}"):
                body: Any = obstore.open_reader(self.native, self._key(key))
                return io.BufferedReader(BodyReader(body, partial(_streamed, key)))
        data = self.part(key, start, end)
        if data is None:
            raise Conflict(f"{key} has been deleted")
        return io.BytesIO(data)

    @contextlib.contextmanager
    def _contained(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            message = f"there is no {self.options.store}"
            raise RemoteError(
                message, "make the bucket or container, or set another store"
            ) from None


def _read_elsewhere(body: BinaryIO) -> Iterator[bytes]:
    """Yield the blocks of *body*, which are read in another thread: obstore cannot read in that in which it writes."""
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(body.read, PART_BYTES)
        while block := ahead.result():
            ahead = pool.submit(body.read, PART_BYTES)
            yield block


@contextlib.contextmanager
def gone(key: str) -> Iterator[None]:
    """Raise Conflict if an object does not exist any more."""
    try:
        yield
    except FileNotFoundError:
        raise Conflict(f"{key} has been deleted") from None


@contextlib.contextmanager
def _streamed(key: str) -> Iterator[None]:
    with gone(key), refused(f"read {key}"):
        yield


@contextlib.contextmanager
def refused(action: str) -> Iterator[None]:
    """Translate the errors of obstore; FileNotFoundError and FileExistsError stay as they are."""
    from obstore import exceptions as native

    try:
        yield
    except (native.NotFoundError, FileNotFoundError):
        raise FileNotFoundError(action) from None
    except (native.AlreadyExistsError, native.PreconditionError, FileExistsError):
        raise FileExistsError(action) from None
    except (native.PermissionDeniedError, native.UnauthenticatedError) as exc:
        raise CredentialsError(f"{action}: {_said(exc)}", LOGIN) from None
    except (native.BaseError, OSError) as exc:
        if "NoSuchBucket" in str(exc) or "ContainerNotFound" in str(exc):
            raise FileNotFoundError(action) from None
        text = f"{action}: {_said(exc)}"
        # The answer to HEAD has no body and so no code: S3 refuses an expired token so.
        bodiless = re.search(r"status code: 400\b", str(exc)) and "<Code>" not in str(exc)
        if bodiless or any(code in str(exc) for code in EXPIRED):
            raise CredentialsError(text, LOGIN) from None
        if re.search(r"status code: 4(?!08|29)", str(exc)):
            raise RemoteError(text) from None
        raise NoAnswer(text) from None


def _said(exc: BaseException) -> str:
    """Return the status and code of an answer, or why there is none; a URL in it may have a signature."""
    text = str(exc)
    status = re.search(r"status code: (\d{3}[ A-Za-z]*)", text)
    if status is None:
        return SECRETS.sub(r"\1=...", text.strip().partition("\n")[0])[:300]
    code = re.search(r"<Code>(\w+)</Code>", text)
    return f"{status[1]} ({code[1]})" if code else status[1]


def read_all(store: RunStore, keys: Sequence[str]) -> list[bytes | None]:
    """Return the contents of small objects, which are read in parallel."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(store.read, keys))


def names(store: RunStore, prefix: str) -> list[str]:
    """Return the names of all objects below *prefix*."""
    return [entry.key[len(prefix) :] for entry in store.listing(prefix)]


def empty(store: RunStore, prefix: str) -> None:
    """Delete every object below *prefix*."""
    store.remove([entry.key for entry in store.listing(prefix)])


def put_folder(store: RunStore, key: str, bundle: Bundle, progress: Progress) -> None:
    """Write the content of *bundle* at *key* as one tar, which is made while it is sent."""
    whole = sum(file.bytes for file in bundle.files)
    store.put_blocks(key, tar_blocks(bundle, progress), tar_bytes(bundle))
    progress(whole, whole)


def outputs(store: RunStore, run: str) -> list[OutputFile]:
    """Return every file that the nodes of *run* have saved."""
    base = f"runs/{run}/outputs/"
    entries = ((entry.key, entry.size) for entry in store.listing(base))
    return read_saved_outputs(base, entries, store.opened)


def refuse_without_conditions(store: RunStore, key: str, content: bytes) -> None:
    """Raise RemoteError if the store writes an object although it exists: two jobs of one run could both run."""
    if store.put_new(key, content):
        raise RemoteError(
            "the store does not obey If-None-Match: two jobs of one run could both run",
            "use a store with conditional writes, such as AWS S3, Azure Blob Storage or a volume claim",
        )


def publish(store: RunStore, run: str) -> list[str]:
    """Copy the newest saves of *run* to their plain names; return a line for each name that is not valid."""
    base = f"runs/{run}/outputs/"
    keys = [entry.key for entry in store.listing(base)]
    refused_names = publish_outputs(Publishing(store), base, keys)
    return [f"{name!r} is not a valid key of the store" for name in refused_names]


class Publishing(NamedTuple):
    store: RunStore

    def holds(self, key: str) -> bool:
        try:
            return len(key.encode()) <= KEY_BYTES - 256 and not UNFIT.search(key)  # less the prefix
        except UnicodeEncodeError:
            return False

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        return read_all(self.store, keys)

    def put(self, key: str, content: bytes) -> None:
        self.store.put(key, content)

    def remove_all(self, keys: Sequence[str], folder: str) -> None:
        del folder
        self.store.remove(keys)

    def copy_all(self, copies: Sequence[Copy], folder: str) -> None:
        del folder
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda copy: self.store.copy(copy.source, copy.target), copies))


def sign_container(store: ObjectStore, hours: int) -> str:
    """Return the query of a signature for the container, valid for *hours*, with the rights that jobs need.

    https://learn.microsoft.com/rest/api/storageservices/create-service-sas
    """
    try:
        from azure.storage.blob import generate_container_sas
    except ImportError as exc:
        raise UsageError(
            "a signature for the container needs azure-storage-blob",
            "pip install 'runspec-jobs[azure]', or set service_account instead of store_keys",
        ) from exc
    return generate_container_sas(
        store.account,
        store.bucket,
        account_key=store.secrets["AZURE_STORAGE_KEY"],
        permission="racwdl",
        expiry=datetime.now(UTC) + timedelta(hours=hours),
    )
