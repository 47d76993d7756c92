"""The files of jobs in the bucket: folders put there, outputs taken back, and all of a run removed."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, BinaryIO

import obstore
from obstore.store import S3Store

from runspec.provider import Bundle, OutputFile, Progress, RemoteError
from runspec_aws import archives, resuming
from runspec_aws.errors import translated
from runspec_aws.finding import absent
from runspec_aws.session import Session
from runspec_aws.signed import SENT as TAR

MANIFEST = "/.runspec/manifest.json"
SENT = f"/{TAR}"
Found = tuple[str, int, Callable[[], BinaryIO]]
DELETED_AT_ONCE = 1000  # https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
PARTS = 10_000  # at most. https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
PART_BYTES = 8 << 20
AT_ONCE = 8  # parts, each of which is in memory
BLOCK_BYTES = 1 << 20
ENTRY_BYTES = 4096  # of a tar for each file, beside its content
METHODS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "GET": ("get_object", {}),
    "PUT": ("put_object", {}),
    "CLAIM": ("put_object", {"IfNoneMatch": "*"}),
}
TAKEN = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})


class Objects:
    """What lies under the prefix of the profile."""

    def __init__(self, session: Session, prefix: str, signed_for_s: int = 3600) -> None:
        self.session = session
        self.prefix = prefix
        self.signed_for_s = signed_for_s

    def read(self, *parts: str) -> bytes | None:
        """Give the content of a small object, or None."""
        where = {"Bucket": self.session.bucket, "Key": "/".join((self.prefix, *parts))}
        found = absent(lambda: self.session.look("s3").get_object(**where), f"read {where['Key']}")
        if found is None:
            return None
        with translated(f"read {where['Key']}"):
            data: bytes = found["Body"].read()
        return data

    def put_new(self, content: bytes, *parts: str) -> bool:
        """Put a small object where none is; say whether there was none."""
        where = {"Bucket": self.session.bucket, "Key": "/".join((self.prefix, *parts))}
        put = partial(self.session.make("s3").put_object, Body=content, IfNoneMatch="*")
        return absent(lambda: put(**where) or {}, f"write {where['Key']}", TAKEN) is not None

    def with_urls(self, value: Any) -> Any:
        """Give *value* with a signed URL for every `{"$signed": "GET key"}`; not to be kept anywhere."""
        if isinstance(value, Mapping):
            if value.keys() == {"$signed"}:
                return self._signed(*value["$signed"].split(" ", 1))
            return {k: self.with_urls(v) for k, v in value.items()}
        return [self.with_urls(v) for v in value] if isinstance(value, list) else value

    def _signed(self, method: str, key: str) -> str:
        """The signature of a CLAIM covers its header: the URL puts where nothing is, or not at all."""
        operation, more = METHODS[method]
        params = {"Bucket": self.session.bucket, "Key": key, **more}
        with translated(f"sign {key}"):
            found: str = self.session.signer().generate_presigned_url(
                operation, Params=params, ExpiresIn=self.signed_for_s
            )
        return found

    def put_folder(self, key: str, bundle: Bundle, progress: Progress) -> None:
        """Put the content of *bundle* at *key*, as one tar, whole or not at all.

        The tar is made while it is sent. Where that fails, a folder that changes meanwhile
        included, obstore aborts the upload, and nothing is there. An upload that was killed is
        taken up: what arrived of it is not sent again.
        """
        whole = sum(file.bytes for file in bundle.files)
        size = whole + ENTRY_BYTES * len(bundle.files)  # at most, but for very long paths
        part = max(PART_BYTES, -(-size // PARTS))
        blocks = _blocks(_tar(bundle), progress, whole)
        cut_off = resuming.unfinished(self.session, key) if size > PART_BYTES else []
        if cut_off:
            resuming.finish(self.session, key, cut_off[-1], blocks, part)
            resuming.drop(self.session, key)
        else:
            with translated(f"upload {key}"):
                obstore.put(self._store(), key, blocks, chunk_size=part, max_concurrency=AT_ONCE)
        progress(whole, whole)

    def remove(self, key: str) -> None:
        """Remove one object, and what was begun of it."""
        resuming.drop(self.session, key)
        with translated(f"remove {key}"):
            self.session.make("s3").delete_object(Bucket=self.session.bucket, Key=key)

    def _store(self) -> S3Store:
        """Obstore moves bulk at a quarter of boto3's CPU and less."""
        end = self.session.look("s3").meta.endpoint_url
        plain = end.startswith("http://")
        return S3Store(
            self.session.bucket,
            endpoint=end if plain else None,
            region=self.session.region,
            virtual_hosted_style_request=not plain,
            client_options={"allow_http": plain, "timeout": timedelta(minutes=10)},
            credential_provider=self.session.credentials(),
        )

    def listing(self, prefix: str) -> Iterator[Mapping[str, Any]]:
        """Give every object whose key begins with *prefix*."""
        pages = self.session.look("s3").get_paginator("list_objects_v2")
        with translated(f"list {prefix}"):
            for page in pages.paginate(Bucket=self.session.bucket, Prefix=prefix):
                yield from page.get("Contents", ())

    def folders(self, prefix: str) -> Iterator[str]:
        """Give the names of what lies right under *prefix* and has something in it: 1,000 with a call."""
        pages = self.session.look("s3").get_paginator("list_objects_v2")
        where = {"Bucket": self.session.bucket, "Prefix": prefix, "Delimiter": "/"}
        with translated(f"list {prefix}"):
            for page in pages.paginate(**where):
                for found in page.get("CommonPrefixes", ()):
                    yield found["Prefix"][len(prefix) : -1]

    def empty(self, prefix: str) -> None:
        """Remove every object whose key begins with *prefix*."""
        assert prefix.strip("/"), "BUG: this would empty the bucket"
        keys = [{"Key": found["Key"]} for found in self.listing(prefix)]
        for start in range(0, len(keys), DELETED_AT_ONCE):
            some = {"Objects": keys[start : start + DELETED_AT_ONCE], "Quiet": True}
            with translated(f"empty {prefix}"):
                done = self.session.make("s3").delete_objects(
                    Bucket=self.session.bucket, Delete=some
                )
            if errors := done.get("Errors"):  # a 200 may hold them
                what = f"{len(errors)} objects are still there, {errors[0].get('Key')} among them"
                raise RemoteError(f"empty {prefix}: {what}: {errors[0].get('Message')}")

    def outputs(self, run: str) -> list[OutputFile]:
        """Give all that the manifests list, a file that is being written is in none; and all in tars."""
        base = f"{self.prefix}/runs/{run}/outputs/"
        found: list[OutputFile] = []
        for entry in self.listing(base):
            for end, files in ((MANIFEST, self._listed), (SENT, self._sent)):
                if entry["Key"].endswith(end):
                    name, task, rank = entry["Key"][len(base) : -len(end)].split("/")
                    found += [
                        OutputFile(name, int(task), int(rank), *file)
                        for file in files(entry["Key"], entry["Size"])
                    ]
        return sorted(found, key=lambda f: (f.output, f.task, f.rank, f.path))

    def _listed(self, key: str, _size: int) -> Iterator[Found]:
        text = self.read(*key[len(self.prefix) + 1 :].split("/"))
        folder = key.removesuffix(MANIFEST)
        for file in json.loads(text or b'{"files": []}')["files"]:
            yield file["path"], file["size"], partial(self._open, f"{folder}/{file['path']}")

    def _sent(self, key: str, size: int) -> Iterator[Found]:
        def read(start: int, end: int) -> bytes:
            with self._open(key, start, end) as stream:
                return stream.read()

        try:
            for file in archives.members(read, size):
                end = file.start + file.bytes
                yield file.path, file.bytes, partial(self._open, key, file.start, end)
        except tarfile.TarError as exc:
            raise RemoteError(f"{key} is no tar: {exc}") from exc

    def _open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        """Open the bytes from *start* up to *end*."""
        if start == end:
            return io.BytesIO()
        where = {"Bucket": self.session.bucket, "Key": key}
        if end is not None:
            where["Range"] = f"bytes={start}-{end - 1}"
        with translated(f"read {key}"):
            body = self.session.look("s3").get_object(**where)["Body"]
        return io.BufferedReader(_Reading(body, key))


class _Reading(io.RawIOBase):
    """The body of an answer as a file."""

    def __init__(self, body: Any, key: str) -> None:
        self.body, self.key = body, key

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with translated(f"read {self.key}"):
            data = self.body.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.body.close()
        super().close()


def _tar(bundle: Bundle) -> Iterator[bytes]:
    """Give the tar of *bundle*, piece by piece. Equal folders make equal tars: no time, no owner.

    In GNU's form, since busybox knows no other long names.
    """
    size = 0
    for entry in bundle.files:
        info = tarfile.TarInfo(entry.path)
        info.size, info.mode = entry.bytes, 0o755 if entry.executable else 0o644
        header, filling = info.tobuf(tarfile.GNU_FORMAT), bytes(-entry.bytes % tarfile.BLOCKSIZE)
        yield header
        with bundle.open(entry) as file:
            while block := file.read(BLOCK_BYTES):  # to the end: that is when it is checked
                yield block
        yield filling
        size += len(header) + entry.bytes + len(filling)
    size += 2 * tarfile.BLOCKSIZE
    yield bytes(2 * tarfile.BLOCKSIZE + -size % tarfile.RECORDSIZE)


def _blocks(pieces: Iterator[bytes], progress: Progress, whole: int) -> Iterator[bytes]:
    """Give *pieces*, the small ones joined to blocks, and tell how far they are."""
    done = 0
    for block in _joined(pieces):
        yield block
        done += len(block)
        progress(min(done, whole), whole)


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What is large already is handed on and not copied."""
    block = bytearray()
    for piece in pieces:
        if block and len(block) + len(piece) > BLOCK_BYTES:
            yield bytes(block)
            block.clear()
        if len(piece) < BLOCK_BYTES:
            block += piece
        else:
            yield piece
    yield bytes(block)
