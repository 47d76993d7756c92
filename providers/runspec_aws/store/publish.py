"""Copy saved outputs to plain names; S3 copies within the bucket, and nothing is transferred to this machine."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from boto3.s3.transfer import TransferConfig

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.errors import translated
from runspec_aws.store.objects import AT_ONCE, Objects
from runspec_jobs.provider.saved_outputs import Copy, publish as publish_outputs

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
KEY_BYTES = 1024
# S3 can copy 5 GiB in one request, but that takes longer than a request may; a part of this size does not.
PART_BYTES = 256 << 20
PARTS = TransferConfig(
    multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
)


def publish(files: Objects, run: str) -> list[str]:
    """Copy the newest saves of *run* to their plain names; return a line for each name that S3 does not allow."""
    base = files.key("runs", run, "outputs", "")
    keys = [entry["Key"] for entry in files.listing(base)]
    return [
        f"{name!r} is not a valid key in S3" for name in publish_outputs(_Bucket(files), base, keys)
    ]


class _Bucket(NamedTuple):
    files: Objects

    def holds(self, key: str) -> bool:
        try:
            return len(key.encode()) <= KEY_BYTES
        except UnicodeEncodeError:  # a file name with bytes that are not UTF-8 cannot be a key
            return False

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        return self.files.read_all([key.removeprefix(f"{self.files.prefix}/") for key in keys])

    def put(self, key: str, content: bytes) -> None:
        bucket = self.files.session.bucket
        with translated(f"write {key}"):
            self.files.session.make("s3").put_object(Bucket=bucket, Key=key, Body=content)

    def remove_all(self, keys: Sequence[str], folder: str) -> None:
        self.files.delete_all(keys, f"clear {folder}")

    def copy_all(self, copies: Sequence[Copy], folder: str) -> None:
        del folder
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self.copy, copies))

    def copy(self, copy: Copy) -> None:
        """Copy without tags, as jobs do, since tags need `s3:GetObjectTagging` and `s3:PutObjectTagging`."""
        bucket = self.files.session.bucket
        with translated(f"copy {copy.source} to {copy.target}"):
            self.files.session.look("s3").copy(
                {"Bucket": bucket, "Key": copy.source},
                bucket,
                copy.target,
                ExtraArgs={"TaggingDirective": "REPLACE"},
                Config=PARTS,
            )
