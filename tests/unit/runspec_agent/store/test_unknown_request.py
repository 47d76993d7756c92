"""A store that does not know a request answers 501, and no other attempt would change that."""

from __future__ import annotations

from email.message import Message
from typing import Any

import pytest

from runspec_agent.base.boot import Answer
from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.store.s3 import S3Bucket


@pytest.mark.parametrize(("status", "code"), [(501, USAGE), (500, LOST), (403, LOST)])
def test_a_claim_that_the_store_does_not_know_ends_the_job_for_good(
    status: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPEC_STORE", "s3://jobs/runspec")
    monkeypatch.setenv("RUNSPEC_REGION", "eu-west-1")
    bucket = S3Bucket()
    asked: list[Any] = []

    def send(ask: Any, take: Any = None) -> Answer:
        asked.append(ask)
        return Answer(status, Message(), b"<Error><Code>NotImplemented</Code></Error>")

    monkeypatch.setattr(bucket.store, "send", send)

    with pytest.raises(Failure, match=f"the store refuses claim: {status}") as ended:
        bucket.claim("claim", b"job")

    assert (ended.value.code, len(asked)) == (code, 1)
