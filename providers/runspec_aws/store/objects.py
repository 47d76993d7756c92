"""The files of jobs in the bucket: folders put there, outputs taken back, and all of a run removed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, BinaryIO

import obstore
from obstore.store import S3Store

from runspec_aws.errors import listed, moved, translated
from runspec_aws.lookup import absent
from runspec_aws.session.clients import Session
from runspec_aws.store import resume
from runspec_jobs.provider import (
    BodyReader,
    Bundle,
    OutputFile,
    Progress,
    RemoteError,
    read_saved_outputs,
    tar_blocks,
    tar_bytes,
)

DELETED_AT_ONCE = 1000  # https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
PARTS = 10_000  # at most. https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
PART_BYTES = 8 << 20
AT_ONCE = 8  # parts, each of which is in memory; and small objects
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

    def key(self, *parts: str) -> str:
        return "/".join((self.prefix, *parts))

    def read(self, *parts: str) -> bytes | None:
        """Return the content of a small object, or None."""
        where = {"Bucket": self.session.bucket, "Key": self.key(*parts)}
        found = absent(lambda: self.session.look("s3").get_object(**where), f"read {where['Key']}")
        if found is None:
            return None
        with translated(f"read {where['Key']}"):
            data: bytes = found["Body"].read()
        return data

    def names(self, *parts: str) -> list[str]:
        """Return the names of all objects whose keys begin with *parts*."""
        prefix = "/".join((self.prefix, *parts))
        return [found["Key"][len(prefix) :] for found in self.listing(prefix)]

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the content of small objects, some at a time: one after the other, each would cost a round trip."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self.read, keys))

    def put_new(self, content: bytes, *parts: str) -> bool:
        """Put a small object where none is; say whether there was none."""
        where = {"Bucket": self.session.bucket, "Key": "/".join((self.prefix, *parts))}
        put = partial(self.session.make("s3").put_object, Body=content, IfNoneMatch="*")
        return absent(lambda: put(**where) or {}, f"write {where['Key']}", TAKEN) is not None

    def with_urls(self, value: Any) -> Any:
        """Return *value* with a signed URL for every `{"$signed": "GET key"}`; not to be kept anywhere."""
        if isinstance(value, Mapping):
            if value.keys() == {"$signed"}:
                return self._signed(*value["$signed"].split(" ", 1))
            return {k: self.with_urls(v) for k, v in value.items()}
        return [self.with_urls(v) for v in value] if isinstance(value, list) else value

    def _signed(self, method: str, key: str) -> str:
        """The signature of a CLAIM covers its header: the URL puts where nothing is, or not at all.

        See docs/unverified.md, aws-4 and docs/unverified.md, aws-5.
        """
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
        size, whole = tar_bytes(bundle), sum(file.bytes for file in bundle.files)
        part = max(PART_BYTES, -(-size // PARTS))
        blocks = tar_blocks(bundle, progress)
        cut_off = resume.unfinished(self.session, key) if size > PART_BYTES else []
        if cut_off:
            resume.finish(self.session, key, cut_off[-1], blocks, part)
            resume.drop(self.session, key)
        else:
            with moved(f"upload {key}"):
                obstore.put(self.store(), key, blocks, chunk_size=part, max_concurrency=AT_ONCE)
        progress(whole, whole)

    def remove(self, key: str) -> None:
        """Remove one object, and what was begun of it."""
        resume.drop(self.session, key)
        with translated(f"remove {key}"):
            self.session.make("s3").delete_object(Bucket=self.session.bucket, Key=key)

    def store(self) -> S3Store:
        """Obstore moves bulk at a quarter of boto3's CPU and less."""
        end = self.session.store_endpoint()
        return S3Store(
            self.session.bucket,
            aws_endpoint_url_s3=end.url,  # before what the environment says
            region=self.session.region,
            virtual_hosted_style_request=end.names_bucket,
            client_options={"allow_http": True, "timeout": timedelta(minutes=10)},
            credential_provider=self.session.credentials(),
        )

    def listing(self, prefix: str) -> Iterator[Mapping[str, Any]]:
        """Yield every object whose key begins with *prefix*."""
        pages = self.session.look("s3").get_paginator("list_objects_v2")
        with translated(f"list {prefix}"):
            for page in pages.paginate(Bucket=self.session.bucket, Prefix=prefix):
                yield from listed(page, "Contents")

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of what lies right under *prefix* and has something in it: 1,000 with a call."""
        pages = self.session.look("s3").get_paginator("list_objects_v2")
        where = {"Bucket": self.session.bucket, "Prefix": prefix, "Delimiter": "/"}
        with translated(f"list {prefix}"):
            for page in pages.paginate(**where):
                for found in listed(page, "CommonPrefixes"):
                    yield found["Prefix"][len(prefix) : -1]

    def empty(self, prefix: str) -> None:
        """Remove every object whose key begins with *prefix*."""
        assert prefix.strip("/"), "BUG: this would empty the bucket"
        self.delete_all([found["Key"] for found in self.listing(prefix)], f"empty {prefix}")

    def delete_all(self, keys: Sequence[str], what: str) -> None:
        """Remove the objects of *keys* that are there. Raises RemoteError, which says *what*, where one stays."""
        named = [{"Key": key} for key in keys]
        for start in range(0, len(named), DELETED_AT_ONCE):
            some = {"Objects": named[start : start + DELETED_AT_ONCE], "Quiet": True}
            with translated(what):
                done = self.session.make("s3").delete_objects(
                    Bucket=self.session.bucket, Delete=some
                )
            if errors := done.get("Errors"):  # a 200 may hold them
                left = f"{len(errors)} objects are still there, {errors[0].get('Key')} among them"
                raise RemoteError(f"{what}: {left}: {errors[0].get('Message')}")

    def outputs(self, run: str) -> list[OutputFile]:
        """Return all that was saved of *run*."""
        base = f"{self.prefix}/runs/{run}/outputs/"
        entries = ((entry["Key"], entry["Size"]) for entry in self.listing(base))
        return read_saved_outputs(base, entries, self._open)

    def _open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        """Open the bytes from *start* up to *end*."""
        if start == end:
            return io.BytesIO()
        where = {"Bucket": self.session.bucket, "Key": key}
        if end is not None:
            where["Range"] = f"bytes={start}-{end - 1}"
        with translated(f"read {key}"):
            body = self.session.look("s3").get_object(**where)["Body"]
        return io.BufferedReader(BodyReader(body, partial(translated, f"read {key}")))
