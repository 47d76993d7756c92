"""What is Azure's own about the store: where it is, the signature that nobody sees, and how it says no."""

from __future__ import annotations

import email.message
import hashlib
import http.client
import io
import time
from typing import Any

import pytest

from runspec_agent.base import boot
from runspec_agent.base.boot import Answer, Ask
from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.store import blob
from runspec_agent.store.base import Bucket, connect
from runspec_agent.store.blob import REFUSED, BlobBucket, BlobStore
from runspec_agent.store.s3 import parsed
from runspec_emulators.azure_services.blob import Blobs
from tests.support.agent.breakable_stores import Way

BLOB = pytest.mark.parametrize(
    "kind", [pytest.param("blob", marks=pytest.mark.slow)], indirect=True
)
SAS = "sv=2021-12-02&se=2026-01-02T03%3A04%3A05Z&sr=c&sp=racwdl&sig=s%2Fcret%3D"


def store(where: str, sas: str = SAS, blob_url: str = "") -> BlobStore:
    return BlobStore({"RUNSPEC_STORE": where, "RUNSPEC_SAS": sas, "RUNSPEC_BLOB_URL": blob_url})


class Written(BlobBucket):
    """A container that keeps what is written."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, key: str, content: bytes) -> None:
        self.kept[key] = content


def test_a_small_file_is_written_at_once_if_it_is_the_one_that_was_read() -> None:
    bucket, digest = Written(), hashlib.sha256(b"abc").hexdigest()

    bucket.put_file("k", lambda: io.BytesIO(b"abc"), 3, digest)
    with pytest.raises(Failure, match="changed"):
        bucket.put_file("other", lambda: io.BytesIO(b"abd"), 3, digest)

    assert bucket.kept == {"k": b"abc"}


@pytest.mark.parametrize(
    ("blob_url", "where", "https", "host", "path"),
    [
        (
            "https://a.blob.core.windows.net",
            "https://a.blob.core.windows.net/c/p q/é",
            True,
            "a.blob.core.windows.net",
            "/c/p%20q/%C3%A9/k",
        ),
        ("http://127.0.0.1:1/a", "http://127.0.0.1:1/a/c/p/q", False, "127.0.0.1:1", "/a/c/p/q/k"),
        ("https://b.example/x/a", "https://b.example/x/a/c/p/q", True, "b.example", "/x/a/c/p/q/k"),
    ],
)
def test_the_container_comes_after_the_url_of_the_blobs(
    blob_url: str, where: str, https: bool, host: str, path: str
) -> None:
    found = store(where, blob_url=blob_url)

    assert (found.https, found.host, found.path_of(Ask("GET", "k"))[0]) == (https, host, path)
    assert found.prefix.startswith("p")


def test_the_signature_goes_with_every_request() -> None:
    found = store("https://a.blob.core.windows.net/c/p", "?" + SAS)

    assert found.path_of(Ask("GET", "k"))[1] == SAS
    assert found.path_of(Ask("PUT", "k", (("comp", "block"),)))[1] == "comp=block&" + SAS


@pytest.mark.parametrize("sas", ["", "a b", "sig=x\n"])
def test_a_malformed_signature_is_refused_and_not_shown(sas: str) -> None:
    with pytest.raises(Failure) as failure:
        store("https://a.blob.core.windows.net/c/p", sas)

    assert str(failure.value) == "RUNSPEC_SAS is not the query of a signature"


def test_no_error_shows_the_signature(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    """Some of Python's own say which URL it was."""

    def refuse(self: Any, ask: Ask) -> Any:
        raise http.client.InvalidURL("no: /c/k?" + self.path_of(ask)[1])

    monkeypatch.setattr(BlobStore, "send_once", refuse)

    with pytest.raises(OSError, match="no: /c/k") as failure:
        store("https://a.blob.core.windows.net/c/p").send(Ask("GET", "k"))

    assert str(failure.value) == "no: /c/k?***"
    assert failure.value.__suppress_context__


@pytest.mark.parametrize(("said", "least_s"), [("7", 7), ("4000", 120), ("soon", 0.5), (None, 0.5)])
def test_the_store_is_left_alone_for_as_long_as_it_asks(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float], said: str | None, least_s: float
) -> None:
    headers = email.message.Message()
    if said is not None:
        headers["Retry-After"] = said
    answers = [Answer(503, headers, b""), Answer(200, headers, b"x")]
    monkeypatch.setattr(BlobStore, "send_once", lambda *_: answers.pop(0))

    def take(found: Any) -> Any:
        return found

    assert store("http://127.0.0.1/a/c/p").send(Ask("GET", "k"), take).body == b"x"

    assert pauses == [least_s]


@pytest.mark.parametrize(
    "end", ["2026-01-02T03%3A04%3A05Z", "2999-01-02T03%3A04%3A05Z", "2026-01-02"]
)
def test_a_signature_knows_when_it_ended(end: str) -> None:
    found = store("http://127.0.0.1/a/c/p", f"se={end}&sig=x")

    assert found.ended(time.time()) == (
        "2026-01-02T03:04:05Z" if end.startswith("2026-01-02T") else ""
    )


@BLOB
def test_a_signature_that_has_ended_is_one_clear_line(
    way: Way, blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And trying again does not help."""
    sas = blobs.sas("inside", lasts_s=-60)
    monkeypatch.setenv("RUNSPEC_SAS", sas)
    monkeypatch.setattr(boot, "time", time)

    with pytest.raises(Failure) as failure:
        connect().put("a", b"x")

    said = r"the store rejects the signature of this run (RUNSPEC_SAS): it expired at 20"
    assert str(failure.value).startswith(said) and sas not in str(failure.value)
    assert failure.value.code == REFUSED
    assert way.count("PUT") == 1


@BLOB
def test_another_refusal_is_not_the_signatures(bucket: Bucket, way: Way) -> None:
    way.breaks("403", times=2)

    with pytest.raises(Failure, match="the store refuses a: 403 Told") as failure:
        bucket.put("a", b"x")

    assert failure.value.code == LOST


@BLOB
@pytest.mark.parametrize("key", ["a\nb", "a\x01", "a\x7f"])
def test_a_name_the_service_does_not_take_is_said_without_asking(
    bucket: Bucket, way: Way, key: str
) -> None:
    with pytest.raises(Failure, match="no name with control characters") as failure:
        bucket.put(key, b"x")

    assert (failure.value.code, way.calls) == (USAGE, [])


def test_a_name_that_xml_cannot_hold_comes_escaped() -> None:
    """https://learn.microsoft.com/en-us/rest/api/storageservices/list-blobs"""
    text = b'<r><Blob><Name Encoded="true">a%EF%BF%BE%2520</Name></Blob><Blob><Name>a%20</Name></Blob></r>'

    names = [blob.name_of(found) for found in parsed(text).iter("Blob")]

    assert names == ["a\ufffe%20", "a%20"]


@BLOB
def test_two_simultaneous_uploads_of_a_blob_do_not_mix(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a node that is thought lost, and the one that does its work again."""
    monkeypatch.setattr(blob, "SMALL_BYTES", 10)
    monkeypatch.setattr(blob, "BLOCK_BYTES", 10)
    content, parts = b"x" * 20, [0, 1]

    def opened() -> io.BytesIO:
        if parts.pop() == 0:  # before the second part of ours, two of another come, and no more
            with pytest.raises(Failure, match="changed while it was read"):
                bucket.put_file("a", lambda: io.BytesIO(b"y" * 20), 20, "0" * 64)
        return io.BytesIO(content)

    bucket.put_file("a", opened, 20, hashlib.sha256(content).hexdigest())

    assert bucket.get("a") == content
