"""Plain names for what was saved: copies that S3 makes itself, from the bucket into the bucket."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from boto3.s3.transfer import TransferConfig

from runspec_aws.errors import translated
from runspec_aws.store.objects import AT_ONCE, Objects
from runspec_jobs.provider import Copy, Publication, unpublished

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
KEY_BYTES = 1024
# S3 copies 5 GiB in one request; by parts of this size, none runs into the time that a request may take.
PART_BYTES = 256 << 20
PARTS = TransferConfig(
    multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
)


def publish(files: Objects, run: str) -> list[str]:
    """Give the newest saves of *run* their plain names; return a line for each that S3 cannot have."""
    base = files.key("runs", run, "outputs", "")
    keys = [entry["Key"] for entry in files.listing(base)]

    def read(wanted: Sequence[str]) -> list[bytes | None]:
        return files.read_all([key.removeprefix(f"{files.prefix}/") for key in wanted])

    refused: list[str] = []
    for left in unpublished(base, keys, read):
        refused += _finish(files, left)
    return [f"{key[len(base) :]!r} is no key in S3" for key in refused]


def _finish(files: Objects, left: Publication) -> list[str]:
    """Carry out *left*; return the keys that S3 cannot have. The note comes last."""
    refused = [copy.target for copy in left.copies if not _is_key(copy.target)]
    _note(files, left.key, left.begun())
    files.delete_all([key for key in left.stale if _is_key(key)], f"clear {left.folder}")
    wanted = [copy for copy in left.copies if copy.target not in refused]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda copy: _copy(files, copy), wanted))
    _note(files, left.key, left.note(refused))
    return refused


def _note(files: Objects, key: str, note: bytes) -> None:
    with translated(f"write {key}"):
        files.session.make("s3").put_object(Bucket=files.session.bucket, Key=key, Body=note)


def _copy(files: Objects, copy: Copy) -> None:
    """Copy without tags, as jobs do: to copy those would take `s3:GetObjectTagging` and `s3:PutObjectTagging`."""
    bucket = files.session.bucket
    with translated(f"copy {copy.source} to {copy.target}"):
        files.session.look("s3").copy(
            {"Bucket": bucket, "Key": copy.source},
            bucket,
            copy.target,
            ExtraArgs={"TaggingDirective": "REPLACE"},
            Config=PARTS,
        )


def _is_key(key: str) -> bool:
    try:
        return len(key.encode()) <= KEY_BYTES
    except UnicodeEncodeError:
        return False
