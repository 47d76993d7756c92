"""What a job asks of the store: claims that one wins, files in parts, lists in pages, failures with a name."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from runspec_agent.base.failure import NoName
from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.store import blob, s3 as module
from runspec_agent.store.base import BLOCK, Bucket, file_digest
from runspec_agent.store.s3 import S3Bucket
from tests.support.agent.breakable_stores import Way

pytestmark = pytest.mark.process


def opened(content: bytes) -> Callable[[], IO[bytes]]:
    return lambda: BytesIO(content)


def put(bucket: Bucket, key: str, content: bytes) -> None:
    bucket.put_file(key, opened(content), len(content), hashlib.sha256(content).hexdigest())


def test_a_missing_object_is_none_and_an_empty_one_is_not(bucket: Bucket) -> None:
    """And something is what was put."""
    assert bucket.get("a") is None

    bucket.put("a", b"")

    assert bucket.get("a") == b""


S3 = pytest.mark.parametrize("kind", ["s3"], indirect=True)


@pytest.mark.parametrize("key", ["a b", "a+b", "~é日", "a&b=c?d#e", "%41", "<a>&amp;", "a:b@c'd\""])
def test_keys_are_written_read_and_listed_unchanged(bucket: Bucket, key: str) -> None:
    """Written, read, and listed."""
    bucket.put("in/" + key, b"1")

    assert bucket.get("in/" + key) == b"1"
    assert [found.key for found in bucket.listing("in/")] == ["in/" + key]


@S3
@pytest.mark.parametrize("key", ["x\ny\t", "a\x01b"])
def test_keys_may_hold_what_xml_cannot(bucket: Bucket, key: str) -> None:
    bucket.put("in/" + key, b"1")

    assert bucket.get("in/" + key) == b"1"
    assert [found.key for found in bucket.listing("in/")] == ["in/" + key]


@S3
@pytest.mark.parametrize("key", ["x\ny\t", "a\x01b", "a\x7f"])
def test_no_copy_has_a_name_that_the_client_cannot_list(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """A list of obstore, which the client of Kubernetes uses, ends at the first such name."""
    monkeypatch.setenv("RUNSPEC_PRINTABLE", "1")
    printable = S3Bucket()
    bucket.put("object", b"1")

    with pytest.raises(NoName, match="control characters") as failure:
        printable.copy("object", f"outputs/{key}", 1)

    assert failure.value.code != LOST, "the other files of an output are copied"
    assert [found.key for found in bucket.listing("")] == ["object"]


# Claims


def test_one_of_many_simultaneous_claims_wins(bucket: Bucket) -> None:
    """Eight at a time, twenty times; all learn who."""
    for race in range(20):
        told: list[bytes] = []
        gate = threading.Barrier(8)

        def run(name: bytes, race: int = race, told: list[bytes] = told, gate: Any = gate) -> None:
            gate.wait()
            told.append(bucket.claim(f"race-{race}", name))

        threads = [threading.Thread(target=run, args=(b"%d" % n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(told) == 8
        assert set(told) == {bucket.get(f"race-{race}")}


def test_a_repeated_claim_of_the_same_id_succeeds(bucket: Bucket) -> None:
    """A retry of the service has the same id."""
    assert bucket.claim("claim", b"me") == b"me"
    assert bucket.claim("claim", b"me") == b"me"
    assert bucket.claim("claim", b"other") == b"me"


def test_a_claim_whose_reply_is_lost_is_known_again(bucket: Bucket, way: Way) -> None:
    """The second try finds what the first has put."""
    way.breaks("reset after", "PUT", "claim")

    assert bucket.claim("claim", b"me") == b"me"

    assert way.count("PUT") == 2


def test_claims_at_the_same_moment_are_tried_again(
    bucket: Bucket, way: Way, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may answer 409 to both, and have neither.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
    """
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=pauses.append))
    way.breaks("409", "PUT", "claim", times=2)

    assert bucket.claim("claim", b"me") == b"me"


# Files


PART = 5 << 20  # the least that S3 takes


@pytest.fixture
def parts(kind: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], tuple[str, str]]:
    """Have files go in parts of so many bytes; give what is in requests for a part, and for the second."""

    def small(size: int) -> tuple[str, str]:
        monkeypatch.setattr(module, "PART_BYTES", size)
        monkeypatch.setattr(blob, "SMALL_BYTES", size)
        monkeypatch.setattr(blob, "BLOCK_BYTES", size)
        return ("partNumber", "partNumber=2") if kind == "s3" else ("blockid=", "MDAwMDAwMDE%3D")

    return small


Parts = Callable[[int], tuple[str, str]]


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 2 * PART, 2 * PART + 9])
def test_files_come_back_byte_for_byte(
    bucket: Bucket, way: Way, tmp_path: Path, parts: Parts, size: int
) -> None:
    """In one piece, or in parts where one piece is too small."""
    one, _ = parts(PART)
    content = os.urandom(size)

    put(bucket, "file", content)
    bucket.get_file("file", str(tmp_path / "back"))

    assert (tmp_path / "back").read_bytes() == content
    assert way.count("PUT", one) == (-(-size // PART) if size > PART else 0)


@pytest.mark.parametrize("fault", ["503", "reset before", "reset after"])
def test_a_part_is_sent_again(bucket: Bucket, way: Way, parts: Parts, fault: str) -> None:
    """From where it begins."""
    _, second = parts(PART)
    content = os.urandom(2 * PART)
    way.breaks(fault, "PUT", second)

    put(bucket, "file", content)

    assert bucket.get("file") == content


@S3
@pytest.mark.parametrize(("method", "part"), [("PUT", "partNumber=2"), ("POST", "uploadId")])
def test_parts_of_nothing_are_thrown_away(
    bucket: Bucket, way: Way, monkeypatch: pytest.MonkeyPatch, method: str, part: str
) -> None:
    """They cost, and are in no list."""
    monkeypatch.setattr(module, "PART_BYTES", 100)
    way.breaks("403", method, part)

    with pytest.raises(Failure, match="the store refuses file: 403 Told"):
        put(bucket, "file", b"x" * 250)

    assert bucket.get("file") is None
    assert way.count("DELETE", "uploadId") == 1


@S3
def test_parts_that_cannot_be_put_together_are_an_error(
    bucket: S3Bucket, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told in an answer of 200: https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html"""
    monkeypatch.setattr(module, "PART_BYTES", PART)
    real = bucket.request

    def asked(ask: Any) -> Any:
        answer = real(ask)
        last = ask.method == "POST" and ask.query != (("uploads", ""),)
        return answer._replace(body=b"<Error><Code>X</Code></Error>") if last else answer

    monkeypatch.setattr(bucket, "request", asked)

    with pytest.raises(Failure, match="could not complete the upload"):
        put(bucket, "file", bytes(PART + 1))


def test_a_large_file_is_never_in_memory(bucket: Bucket, parts: Parts) -> None:
    """Nor is a part of it: the memory is the job's."""
    parts(PART)
    sizes: list[int] = []

    class Stream(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            sizes.append(-1 if size is None else size)
            return super().read(size)

    content = bytes(PART + 1)
    bucket.put_file(
        "file", lambda: Stream(content), len(content), hashlib.sha256(content).hexdigest()
    )

    assert min(sizes) >= 0 and max(sizes) <= BLOCK


@pytest.mark.parametrize("size", [100, 1000])
@pytest.mark.parametrize("now", [b"", b"x" * 200])
def test_a_file_that_became_shorter_is_not_waited_for(
    bucket: Bucket, pauses: list[float], parts: Parts, now: bytes, size: int
) -> None:
    """The store would wait for the rest, and so would we, six times."""
    parts(size)

    with pytest.raises(Failure, match="changed while it was read"):
        bucket.put_file("file", opened(now), 250, "0" * 64)

    assert pauses == []
    assert bucket.get("file") is None


def test_a_file_that_grows_is_sent_up_to_its_size(bucket: Bucket) -> None:
    """What comes after belongs to the next pass."""
    bucket.put_file("file", opened(b"abcdef"), 3, hashlib.sha256(b"abc").hexdigest())

    assert bucket.get("file") == b"abc"


@pytest.mark.parametrize("size", [100, pytest.param(1000, id="whole")])
def test_a_file_that_changed_during_its_upload_is_not_stored(
    bucket: Bucket, parts: Parts, kind: str, size: int
) -> None:
    """Its checksum is not the one it had. moto does not compare that of a whole file."""
    parts(size if kind == "blob" else 100)

    with pytest.raises(Failure, match="changed while it was read"):
        bucket.put_file("file", opened(b"y" * 250), 250, hashlib.sha256(b"x" * 250).hexdigest())

    assert bucket.get("file") is None


@S3
def test_the_checksum_goes_with_the_file(bucket: Bucket, way: Way) -> None:
    """The store compares; moto does not."""
    put(bucket, "file", b"abc")

    assert way.headers[-1]["x-amz-content-sha256"] == hashlib.sha256(b"abc").hexdigest()


def test_a_file_whose_reply_is_cut_is_asked_for_again(
    bucket: Bucket, way: Way, tmp_path: Path
) -> None:
    """And is whole then."""
    content = os.urandom(3_000_000)
    put(bucket, "file", content)
    way.breaks("truncated", "GET", "file", times=2)

    bucket.get_file("file", str(tmp_path / "back"))

    assert (tmp_path / "back").read_bytes() == content


def test_a_file_that_is_not_there_is_a_failure(bucket: Bucket, tmp_path: Path) -> None:
    """And leaves none behind."""
    with pytest.raises(
        Failure, match=r"the store refuses file: (404 (NoSuchKey|BlobNotFound)|No such file)"
    ) as failure:
        bucket.get_file("file", str(tmp_path / "back"))

    assert failure.value.code == LOST
    assert not (tmp_path / "back").exists()


def test_a_disk_that_refuses_is_not_the_stores_fault(
    bucket: Bucket, pauses: list[float], tmp_path: Path
) -> None:
    """It is told as what it is, and the store is not asked again."""
    put(bucket, "file", b"abc")

    with pytest.raises(Failure, match="Is a directory") as failure:
        bucket.get_file("file", str(tmp_path))

    assert (failure.value.code, pauses) == (USAGE, [])


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    """However many blocks it has."""
    content = os.urandom(BLOCK + 1)
    (tmp_path / "file").write_bytes(content)

    assert file_digest(str(tmp_path / "file")) == (
        len(content),
        hashlib.sha256(content).hexdigest(),
    )


# Lists


def test_a_list_goes_over_all_pages(
    bucket: S3Bucket, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of keys, and of nothing else."""
    for n in range(7):
        bucket.put(f"many/{n}", b"x" * n)
    bucket.put("manyother", b"")
    real = bucket.request

    def small(ask: Any) -> Any:
        return real(ask._replace(query=[*ask.query, ("max-keys", "3"), ("maxresults", "3")]))

    monkeypatch.setattr(bucket, "request", small)

    found = list(bucket.listing("many/"))

    assert [(o.key, o.size) for o in found] == [(f"many/{n}", n) for n in range(7)]
    assert sum(call.lists for call in way.calls) == 3


def test_the_version_in_a_list_changes_with_the_content(bucket: Bucket) -> None:
    """A mirror goes by it."""
    versions = set()
    for content in (b"1", b"2"):
        bucket.put("a", content)
        versions |= {found.etag for found in bucket.listing("a")}

    assert len(versions) == 2


# Failures

CALLS: dict[str, Callable[[Bucket], Any]] = {
    "get": lambda b: b.get("a"),
    "put": lambda b: b.put("a", b"x"),
    "claim": lambda b: b.claim("a", b"x"),
    "opened": lambda b: b.opened("a"),
    "get_file": lambda b: b.get_file("a", os.devnull),
    "put_file": lambda b: put(b, "a", b"x"),
    "listing": lambda b: list(b.listing("")),
    "copy": lambda b: b.copy("b", "a", 30),
    "delete": lambda b: b.delete("a"),
    "delete_all": lambda b: b.delete_all(["a", "c"]),
}


@pytest.mark.parametrize(
    ("call", "fault"),
    [(c, k) for c in CALLS for k in ("403", "503", "reset before")]
    + [(c, "truncated") for c in ("get", "opened", "get_file", "listing")],
)
def test_whatever_the_store_does_is_a_failure_that_may_be_tried_again(
    bucket: Bucket, way: Way, call: str, fault: str
) -> None:
    """The threads of a job catch this and nothing else."""
    bucket.put("b", b"there is something in the list")
    way.breaks(fault, times=100)

    with pytest.raises(Failure, match="the store") as failure:
        CALLS[call](bucket)

    assert failure.value.code == LOST


def test_a_list_that_is_not_xml_is_refused(bucket: Bucket, way: Way) -> None:
    """Some proxy's page, perhaps."""
    list(bucket.listing(""))
    way.answers[way.calls[-1].path] = (200, b"<html>")

    with pytest.raises(Failure, match="is not XML"):
        list(bucket.listing(""))


def test_an_error_without_a_name_of_the_system_is_told_by_its_text(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timeout has no errno, and was told as None."""

    class Silent(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise TimeoutError("timed out")

    monkeypatch.setattr(bucket, "opened", lambda key: Silent())

    with pytest.raises(Failure, match=r"/a: timed out$"):
        bucket.get_file("a", str(tmp_path / "a"))
