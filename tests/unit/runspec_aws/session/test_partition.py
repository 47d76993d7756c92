"""The partitions are those that botocore knows, for whoever plans and for whoever asks from within a job."""

from __future__ import annotations

import botocore.session
import pytest

from runspec_agent.base import boot
from runspec_aws.doctor.findings import ECR
from runspec_aws.naming import partition

LOADER = botocore.session.get_session().get_component("data_loader")
REGIONS = [
    (region, found["id"], found["outputs"]["dnsSuffix"])
    for found in LOADER.load_data("partitions")["partitions"]
    for region in found["regions"]
    if "global" not in region
]


def test_every_region_has_its_partition_and_domain() -> None:
    assert len(REGIONS) > 40
    assert [(r, *partition(r)) for r, _, _ in REGIONS] == REGIONS
    assert [(r, boot.domain(r)) for r, _, _ in REGIONS] == [(r, d) for r, _, d in REGIONS]


@pytest.mark.parametrize(
    "host",
    [
        "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn",
        "123456789012.dkr.ecr.us-gov-west-1.amazonaws.com",
        "123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com",
    ],
)
def test_a_registry_is_known_in_every_partition(host: str) -> None:
    found = ECR.fullmatch(f"{host}/team/train:1.2")

    assert found is not None
    assert (found["name"], found["tag"]) == ("team/train", "1.2")
    assert partition(found["region"]).domain == found["domain"]
