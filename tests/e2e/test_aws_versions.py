"""A versioned bucket: `destroy` deletes every version where the profile says that there are some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import REGION, profile, write

pytestmark = pytest.mark.slow

KEPT = "keeps-versions"


@pytest.fixture
def bucket(region: Region) -> Any:
    """Return a client of S3 with an empty bucket that keeps versions."""
    s3 = boto3.client("s3", region_name=REGION)
    s3.create_bucket(Bucket=KEPT, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_versioning(Bucket=KEPT, VersioningConfiguration={"Status": "Enabled"})
    yield s3
    for one in versions(s3, ""):
        s3.delete_object(Bucket=KEPT, Key=one[0], VersionId=one[1])
    s3.delete_bucket(Bucket=KEPT)


def versions(s3: Any, prefix: str) -> list[tuple[str, str]]:
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=KEPT, Prefix=prefix)
    kinds = ("Versions", "DeleteMarkers")
    return [
        (v["Key"], v["VersionId"]) for page in pages for kind in kinds for v in page.get(kind, ())
    ]


@pytest.mark.parametrize("said", [True, False])
def test_no_version_of_a_run_or_of_an_upload_is_left(said: bool, bucket: Any) -> None:
    profile(Path.cwd(), bucket=KEPT, **({"versioned": True} if said else {}))
    Path("src").mkdir()
    Path("src/a").write_text("a")
    job = write(
        "for i in 1 2 3; do echo $i > ${outputs.o}/a; sleep 1; done",
        mounts=[{"name": "src", "source": "./src", "target": "/job/src"}],
        outputs=[{"name": "o", "path": "/job/o", "sync": "1s"}],
    )

    assert run(["apply", job]) == 0
    assert run(["destroy", "job"]) == 0
    assert run(["destroy", "--shared"]) == 0

    assert "Contents" not in bucket.list_objects_v2(Bucket=KEPT)
    assert (versions(bucket, "") == []) == said
