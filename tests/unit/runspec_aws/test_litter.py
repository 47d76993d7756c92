"""What gc would take away, and what it spares."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from runspec.provider import Litter
from runspec_aws.litter import Collector


class Uploads(Collector):
    """A bucket with two unfinished uploads and nothing else; moto gives all uploads one old date."""

    def __init__(self) -> None:
        now = datetime.now(UTC)
        begun = {"young": now - timedelta(hours=1), "old": now - timedelta(days=2)}
        page = {"Uploads": [{"Key": k, "UploadId": k, "Initiated": at} for k, at in begun.items()]}
        pages: Any = SimpleNamespace(paginate=lambda **_: [page])
        s3 = SimpleNamespace(get_paginator=lambda _: pages)
        self.session: Any = SimpleNamespace(bucket="b", own_queue=False, look=lambda _: s3)
        self.files: Any = SimpleNamespace(prefix="p")

    def _nothing(self, *_: object) -> Iterator[Litter]:
        yield from ()

    _runs = _definitions = _objects = _things = _nothing  # type: ignore[assignment]  # none of it


def test_an_upload_that_may_be_going_on_is_spared() -> None:
    found = {one.remove[0].params["Key"]: one.alive for one in Uploads().litter((), ())}

    assert found == {"young": True, "old": False}
