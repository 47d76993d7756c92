"""What really goes over the wire to S3, where moto takes more than S3 does."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from runspec_aws.options import AwsOptions
from runspec_aws.session import Body, Session
from runspec_aws.store.objects import Objects
from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.streams.object_streams import HashedPart
from tests.support.aws.specs import PROFILE


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    return Session(AwsOptions.model_validate(PROFILE))


class Raw:
    """The body of an answer."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def stream(self, **_: Any) -> Any:
        yield self.body


def answering(client: Any, body: bytes) -> list[Any]:
    """Have *client* get *body* for an answer to everything; give the requests, as they come."""
    sent: list[Any] = []

    def send(request: Any, **_: Any) -> AWSResponse:
        sent.append(request)
        return AWSResponse(request.url, 200, {"ETag": '"x"'}, Raw(body))

    client.meta.events.register("before-send.s3", send)
    return sent


def test_a_part_carries_no_checksum_that_its_upload_was_not_begun_with(session: Session) -> None:
    """S3: "Checksum Type mismatch occurred, expected checksum Type: null"."""
    client = session.look("s3")
    sent = answering(client, b"")

    client.upload_part(Bucket="jobs", Key="k", UploadId="u", PartNumber=1, Body=b"data")

    assert [name for name in sent[0].headers if "checksum" in name.lower()] == []


def test_a_part_is_signed_with_the_sha256_that_it_brings(session: Session) -> None:
    """Botocore does not compute it again, and signs other bodies as ever."""
    client = session.look("s3")
    sent = answering(client, b"")
    part = HashedPart(b"data")
    part.sha256 = "0" * 64

    for body in (Body(part), Body(b"data"), bytearray(b"data")):
        client.upload_part(Bucket="jobs", Key="k", UploadId="u", PartNumber=1, Body=body)

    plain = hashlib.sha256(b"data").hexdigest()
    assert [one.headers["X-Amz-Content-SHA256"].decode() for one in sent] == [
        "0" * 64,
        plain,
        plain,
    ]
    assert all("x-amz-content-sha256" in one.headers["Authorization"].decode() for one in sent)


def test_errors_in_a_200_answer_to_a_deletion_are_raised(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = b"<Error><Key>p/a</Key><Code>InternalError</Code><Message>busy</Message></Error>"
    answering(session.make("s3"), b"<DeleteResult>" + error + b"</DeleteResult>")
    files = Objects(session, "p", 60)
    monkeypatch.setattr(files, "listing", lambda prefix: iter([{"Key": "p/a"}]))

    with pytest.raises(RemoteError, match="1 objects could not be deleted, such as p/a"):
        files.empty("p/runs/r/")
