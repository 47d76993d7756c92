"""Large objects get their plain names by parts, and a name that is no key in S3 holds up no other."""

from __future__ import annotations

import json
import os

import boto3
import pytest
from boto3.s3.transfer import TransferConfig

from runspec_aws.options import AwsOptions
from runspec_aws.session import Session
from runspec_aws.store import publish
from runspec_aws.store.objects import Objects as Files
from runspec_emulators.aws.region import Region
from tests.support.aws.emulated_account import BUCKET, REGION

pytestmark = pytest.mark.slow

PART_BYTES = 5 << 20  # the least that S3 takes


def test_a_large_object_is_copied_by_parts(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    of_test = TransferConfig(
        multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
    )
    monkeypatch.setattr(publish, "PARTS", of_test)
    content, s3 = os.urandom(2 * PART_BYTES + 7), boto3.client("s3", region_name=REGION)
    top = "p/runs/r/outputs/model/0/0"
    files = [
        {"path": path, "size": len(content), "mtime_ns": 1, "sha256": "", "object": "o-1"}
        for path in ("large", "byte\udcff")
    ]
    saves = [{"number": 1, "at": 1, "files": files}]
    record = {"format": "runspec.outputs/v2", "saves": saves}
    s3.put_object(Bucket=BUCKET, Key=f"{top}/.runspec/objects/o-1", Body=content)
    manifest = json.dumps(record).encode()
    s3.put_object(Bucket=BUCKET, Key=f"{top}/.runspec/manifest.json", Body=manifest)
    options = AwsOptions.model_validate({"region": REGION, "bucket": BUCKET})

    left = publish.publish(Files(Session(options), "p"), "r")

    assert left == ["'model/0/0/byte\\udcff' is not a valid key in S3"]
    found = s3.get_object(Bucket=BUCKET, Key=f"{top}/large")
    assert found["Body"].read() == content
    assert found["ETag"].strip('"').endswith("-3")
    note = s3.get_object(Bucket=BUCKET, Key=f"{top}/.runspec/published")["Body"].read()
    assert json.loads(note) == {"save": 1, "files": ["large"]}
