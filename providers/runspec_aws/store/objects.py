"""Read, write, list and delete objects in the bucket: uploaded folders, saved outputs, and the files of runs."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, BinaryIO

from runspec_aws.errors import code_of, listed, translated
from runspec_aws.lookup import absent
from runspec_aws.session import Body, Session
from runspec_aws.store import multipart
from runspec_jobs.provider import Bundle, OutputFile, Progress, RemoteError
from runspec_jobs.provider.saved_outputs import read_saved_outputs
from runspec_jobs.provider.streams.object_streams import BodyReader
from runspec_jobs.provider.streams.tar_stream import tar_blocks, tar_bytes

DELETED_AT_ONCE = 1000  # https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
# Characters that XML 1.0 cannot hold, or changes, so that DeleteObjects cannot name a key with them; the URL of
# DeleteObject can: https://www.w3.org/TR/xml/#charsets
UNFIT = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
AT_ONCE = 8  # small objects that are read at once
PART_BYTES = 8 << 20  # larger folders are uploaded in parts
METHODS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "GET": ("get_object", {}),
    "PUT": ("put_object", {}),
    "CLAIM": ("put_object", {"IfNoneMatch": "*"}),
}
TAKEN = frozenset({"PreconditionFailed", "412"})
NO_ETAG = f'"{"0" * 32}"'  # of no object
WHY = "two jobs of one run could both run"
STORE = (
    "use a store with conditional writes, such as Amazon S3, or a newer version of this one; "
    "see runspec docs networks"
)
INTERFERED = frozenset({"ConditionalRequestConflict", "409"})


class Objects:
    """The objects under the prefix of the profile. In a *versioned* bucket, all versions are deleted."""

    def __init__(
        self, session: Session, prefix: str, signed_for_s: int = 3600, *, versioned: bool = False
    ) -> None:
        self.session = session
        self.prefix = prefix
        self.signed_for_s = signed_for_s
        self.versioned = versioned

    def key(self, *parts: str) -> str:
        return "/".join((self.prefix, *parts))

    def read(self, *parts: str) -> bytes | None:
        """Return the content of a small object, or None if it does not exist."""
        where = {"Bucket": self.session.bucket, "Key": self.key(*parts)}
        answer = absent(lambda: self.session.look("s3").get_object(**where), f"read {where['Key']}")
        if answer is None:
            return None
        with translated(f"read {where['Key']}"):
            data: bytes = answer["Body"].read()
        return data

    def names(self, *parts: str) -> list[str]:
        """Return the keys of all objects that begin with *parts*, without that beginning."""
        prefix = "/".join((self.prefix, *parts))
        return [entry["Key"][len(prefix) :] for entry in self.listing(prefix)]

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the content of small objects, or None for each that does not exist; several are read at once."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self.read, keys))

    def put_new(self, content: bytes, *parts: str) -> bool:
        """Write a small object unless it exists; return whether it was written.

        A write during which another call changed the object is repeated, because 409 does not say that the object
        exists. Raise RemoteError if each repetition gets that answer.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
        """
        where = {"Bucket": self.session.bucket, "Key": "/".join((self.prefix, *parts))}
        put = partial(self.session.make("s3").put_object, Body=content, IfNoneMatch="*", **where)
        message = f"write {where['Key']}"
        for pause_s in self.session.timing.write_pauses_s:
            try:
                return absent(lambda: put() or {}, message, TAKEN) is not None
            except RemoteError as exc:
                if code_of(exc) not in INTERFERED:
                    raise
            self.session.clock.sleep(pause_s)
        return absent(lambda: put() or {}, message, TAKEN) is not None

    def refuse_without_conditions(self, key: str, content: bytes) -> None:
        """Raise RemoteError if the store does not refuse to write an object that is there, or that has changed.

        *key* has *content* already. S3 itself has both conditions; of compatible stores some ignore them, and then
        two jobs of one run would run, and two machines would each overwrite what the other has saved.
        """
        conditions = {"If-None-Match": {"IfNoneMatch": "*"}, "If-Match": {"IfMatch": NO_ETAG}}
        for header, given in conditions.items():
            where = {"Bucket": self.session.bucket, "Key": key, "Body": content, **given}
            put = partial(self.session.make("s3").put_object, **where)
            try:
                kept = absent(partial(_answer, put), f"write {key}", TAKEN) is None
            except RemoteError as exc:
                if exc.transient or code_of(exc) in INTERFERED:
                    raise
                kept = False
            if not kept:
                message = f"the store of s3://{self.session.bucket} does not obey {header}: {WHY}"
                raise RemoteError(message, STORE)

    def with_urls(self, value: Any) -> Any:
        """Return *value* with a signed URL for every `{"$signed": "GET key"}`; the result must not be stored here."""
        if isinstance(value, Mapping):
            if value.keys() == {"$signed"}:
                return self._signed(*value["$signed"].split(" ", 1))
            return {k: self.with_urls(v) for k, v in value.items()}
        return [self.with_urls(v) for v in value] if isinstance(value, list) else value

    def _signed(self, method: str, key: str) -> str:
        """Return a signed URL. That of a CLAIM covers the header `If-None-Match`, so it can overwrite no object.

        See docs/unverified.md, aws-4 and aws-5.
        """
        operation, more = METHODS[method]
        params = {"Bucket": self.session.bucket, "Key": key, **more}
        with translated(f"sign {key}"):
            url: str = self.session.signer().generate_presigned_url(
                operation, Params=params, ExpiresIn=self.signed_for_s
            )
        return url

    def put_folder(self, key: str, bundle: Bundle, progress: Progress) -> None:
        """Upload the content of *bundle* to *key* as one tar; the object is complete or does not exist.

        The tar is made while it is sent. If the folder changes meanwhile, the upload is aborted. If the upload fails
        or the process is killed, the next call continues it, and sends only missing parts.
        """
        size, whole = tar_bytes(bundle), sum(file.bytes for file in bundle.files)
        blocks = tar_blocks(bundle, progress)
        if size > PART_BYTES:
            multipart.put(self.session, key, blocks, size)
        else:
            content = Body(b"".join(blocks))
            with translated(f"upload {key}"):
                self.session.upload().put_object(Bucket=self.session.bucket, Key=key, Body=content)
        progress(whole, whole)

    def remove(self, key: str) -> None:
        """Delete one object, and unfinished uploads of it."""
        multipart.drop(self.session, key)
        if self.versioned:
            versions = [version for version in self._versions(key) if version["Key"] == key]
            self._delete(versions, f"remove {key}")
            return
        with translated(f"remove {key}"):
            self.session.make("s3").delete_object(Bucket=self.session.bucket, Key=key)

    def listing(self, prefix: str) -> Iterator[Mapping[str, Any]]:
        """Yield every object whose key begins with *prefix*."""
        pages = self.session.look("s3").get_paginator("list_objects_v2")
        with translated(f"list {prefix}"):
            for page in pages.paginate(Bucket=self.session.bucket, Prefix=prefix):
                yield from listed(page, "Contents")

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of the folders directly under *prefix*; one request returns 1,000 of them."""
        pages = self.session.look("s3").get_paginator("list_objects_v2")
        where = {"Bucket": self.session.bucket, "Prefix": prefix, "Delimiter": "/"}
        with translated(f"list {prefix}"):
            for page in pages.paginate(**where):
                for entry in listed(page, "CommonPrefixes"):
                    yield entry["Prefix"][len(prefix) : -1]

    def empty(self, prefix: str) -> None:
        """Delete every object whose key begins with *prefix*."""
        assert prefix.strip("/"), "BUG: this would empty the bucket"
        if self.versioned:
            self._delete(list(self._versions(prefix)), f"empty {prefix}")
        else:
            self.delete_all([entry["Key"] for entry in self.listing(prefix)], f"empty {prefix}")

    def _versions(self, prefix: str) -> Iterator[Mapping[str, str]]:
        """Yield every version of the objects whose key begins with *prefix*, and every delete marker.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/DeletingObjectVersions.html
        """
        pages = self.session.look("s3").get_paginator("list_object_versions")
        with translated(f"list the versions of {prefix}"):
            for page in pages.paginate(Bucket=self.session.bucket, Prefix=prefix):
                for version in (*listed(page, "Versions"), *listed(page, "DeleteMarkers")):
                    yield {"Key": version["Key"], "VersionId": version["VersionId"]}

    def delete_all(self, keys: Sequence[str], action: str) -> None:
        """Delete the objects of *keys* that exist. Raise RemoteError, which begins with *action*, if any is left."""
        self._delete([{"Key": key} for key in keys], action)

    def _delete(self, named: Sequence[Mapping[str, str]], action: str) -> None:
        alone = [version for version in named if UNFIT.search(version["Key"])]
        if alone:
            with translated(action), ThreadPoolExecutor(AT_ONCE) as pool:
                delete = partial(self.session.make("s3").delete_object, Bucket=self.session.bucket)
                list(pool.map(lambda one: delete(**one), alone))
            named = [version for version in named if not UNFIT.search(version["Key"])]
        for start in range(0, len(named), DELETED_AT_ONCE):
            some = {"Objects": named[start : start + DELETED_AT_ONCE], "Quiet": True}
            with translated(action):
                done = self.session.make("s3").delete_objects(
                    Bucket=self.session.bucket, Delete=some
                )
            if errors := done.get("Errors"):  # a response with status 200 may contain errors
                left = f"{len(errors)} objects could not be deleted, such as {errors[0].get('Key')}"
                raise RemoteError(f"{action}: {left}: {errors[0].get('Message')}")

    def outputs(self, run: str) -> list[OutputFile]:
        """Return the saved output files of *run*."""
        base = f"{self.prefix}/runs/{run}/outputs/"
        entries = ((entry["Key"], entry["Size"]) for entry in self.listing(base))
        return read_saved_outputs(base, entries, self._open)

    def _open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        """Open the bytes of *key* from *start* up to *end*, or up to its last byte if *end* is None."""
        if start == end:
            return io.BytesIO()
        where = {"Bucket": self.session.bucket, "Key": key}
        if end is not None:
            where["Range"] = f"bytes={start}-{end - 1}"
        with translated(f"read {key}"):
            body = self.session.look("s3").get_object(**where)["Body"]
        return io.BufferedReader(BodyReader(body, partial(translated, f"read {key}")))


def _answer(put: Callable[[], Mapping[str, Any] | None]) -> Mapping[str, Any]:
    """Return the answer to a request, never None, which `absent` gives for a refusal."""
    return put() or {}
