"""What gc would take away, and what it spares."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from runspec_aws.cleanup import OrphanFinder
from runspec_aws.timing import CLOCK, DEFAULT
from runspec_jobs.provider import Orphan


class Uploads(OrphanFinder):
    """A bucket with two unfinished uploads and nothing else; moto gives all uploads one old date."""

    def __init__(self) -> None:
        now = datetime.now(UTC)
        begun = {"young": now - timedelta(hours=1), "old": now - timedelta(days=2)}
        uploads = [{"Key": k, "UploadId": k, "Initiated": at} for k, at in begun.items()]
        page = {"Uploads": uploads, "IsTruncated": False}
        pages: Any = SimpleNamespace(paginate=lambda **_: [page])
        s3 = SimpleNamespace(get_paginator=lambda _: pages)
        how = {"timing": DEFAULT, "clock": CLOCK}
        self.session: Any = SimpleNamespace(bucket="b", own_queue=True, look=lambda _: s3, **how)
        self.files: Any = SimpleNamespace(prefix="p")

    def _nothing(self, *_: object) -> Iterator[Orphan]:
        yield from ()

    _runs = _definitions = _objects = _things = machines = _nothing  # type: ignore[assignment]  # none of it


def test_an_upload_that_may_be_going_on_is_spared() -> None:
    found = {one.remove[0].params["Key"]: one.alive for one in Uploads().find_orphans((), ())}

    assert found == {"young": True, "old": False}


def test_templates_and_groups_are_recognized_by_their_whole_name() -> None:
    names = [
        "runspec-machine-0123456789ab",
        "runspec-machine-of-mine",
        "runspec-close-ba9876543210",
    ]
    page = {"LaunchTemplates": [{"LaunchTemplateName": name} for name in names[:2]]}
    groups = [
        {"GroupName": names[2], "State": "available"},
        {"GroupName": "x", "State": "available"},
    ]
    pages: Any = SimpleNamespace(paginate=lambda: [page])
    ec2: Any = SimpleNamespace(
        get_paginator=lambda _: pages,
        describe_placement_groups=lambda: {"PlacementGroups": groups},
    )
    session: Any = SimpleNamespace(look=lambda _: ec2)
    nothing: Any = None
    collector = OrphanFinder(session, nothing, nothing)

    found = {one.remove[0].operation: one.remove[0].params for one in collector.machines(())}

    assert found == {
        "delete_launch_template": {"LaunchTemplateName": names[0]},
        "delete_placement_group": {"GroupName": names[2]},
    }
    assert list(collector.machines(names)) == []
