"""Copies in a job's store, and deletes: a program for the namespaces, `python -m tests.realnames.copies`."""

from __future__ import annotations

import hashlib
import io
import os
import sys

from runspec_agent.store import blob, s3
from runspec_agent.store.base import Bucket, connect

PART = 5 << 20  # the least of S3
NAME = "a copy+ü&%41#?/x"


def main() -> None:
    s3.PART_BYTES = blob.COPY_BYTES = blob.BLOCK_BYTES = PART
    bucket = connect()
    for content in (b"", b"small", os.urandom(2 * PART + 9)):
        put(bucket, "from/" + NAME, content)
        bucket.copy("from/" + NAME, "to/" + NAME, len(content))
        assert bucket.get("to/" + NAME) == content
        bucket.delete_all(["from/" + NAME, "to/" + NAME, "to/never"])
        assert not list(bucket.listing(""))
    sys.stdout.write("copied and deleted\n")


def put(bucket: Bucket, key: str, content: bytes) -> None:
    digest = hashlib.sha256(content).hexdigest()
    bucket.put_file(key, lambda: io.BytesIO(content), len(content), digest)


if __name__ == "__main__":
    main()
