"""Copies that the store makes by itself, and what is deleted: whole or as before, whatever the keys and the answers."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base import boot
from runspec_agent.base.failure import UNSAVED_CODE
from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.store import blob, s3
from runspec_agent.store.base import Bucket, connect
from runspec_agent.store.blob import BlobStore
from runspec_agent.store.folder import FolderBucket
from runspec_agent.store.s3 import S3Bucket
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.azure_services.identity import Identity
from tests.support import certificates
from tests.support.agent.breakable_stores import OBJECTS, Way
from tests.support.requirements import need
from tests.unit.runspec_agent.store.test_base import PART, put

pytestmark = pytest.mark.process

S3 = pytest.mark.parametrize("kind", ["s3"], indirect=True)
BLOB = pytest.mark.parametrize(
    "kind", [pytest.param("blob", marks=pytest.mark.slow)], indirect=True
)
FOLDER = pytest.mark.parametrize("kind", ["folder"], indirect=True)
NAMES = ["a b", "a+b", "~é日", "a&b=c?d#e", "%41", "%2F", "<a>&amp;", "a:b@c'd\"", "a?versionId=x"]


def names(bucket: Bucket) -> list[str]:
    return [found.key for found in bucket.listing("")]


def path_of(bucket: Bucket, key: str) -> str:
    assert isinstance(bucket, S3Bucket)
    path, query = bucket.store.path_of(boot.Ask("PUT", key))
    return path + "?" * bool(query) + query


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have copies of more than PART bytes go in parts."""
    monkeypatch.setattr(s3, "PART_BYTES", PART)
    monkeypatch.setattr(blob, "COPY_BYTES", PART)
    monkeypatch.setattr(blob, "BLOCK_BYTES", PART)


# Copies


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_of_the_object_that_was_named(bucket: Bucket, name: str) -> None:
    """Whatever characters its name has, and that of the copy."""
    bucket.put("from/" + name, b"1")
    bucket.put("to/other", b"2")

    bucket.copy("from/" + name, "to/" + name, 1)

    assert bucket.get("to/" + name) == b"1"
    assert names(bucket) == sorted(["from/" + name, "to/other", "to/" + name])


@S3
def test_a_copy_may_have_a_name_with_a_line_break(bucket: Bucket) -> None:
    bucket.put("from/x\ny\t", b"1")

    bucket.copy("from/x\ny\t", "to/x\ny\t", 1)

    assert bucket.get("to/x\ny\t") == b"1"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("parts")
def test_a_copy_in_parts_is_of_the_object_that_was_named(bucket: Bucket, name: str) -> None:
    content = os.urandom(PART + 9)
    put(bucket, name, content)

    bucket.copy(name, "to/" + name, len(content))

    assert bucket.get("to/" + name) == content


@OBJECTS
@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 2 * PART, 2 * PART + 9])
@pytest.mark.usefixtures("parts")
def test_the_content_of_a_copy_does_not_come_here(bucket: Bucket, way: Way, size: int) -> None:
    """One request makes it, or one for each part, one to put them together, and on S3 one to begin."""
    content = os.urandom(size)
    put(bucket, "file", content)
    way.calls.clear()
    way.headers.clear()

    bucket.copy("file", "copy", size)

    asked, sent = way.calls[:], [int(found.get("content-length", 0)) for found in way.headers]
    assert {call.method for call in asked} <= {"PUT", "POST"}
    assert max(sent) < 1000
    assert len(asked) <= 1 if size <= PART else len(asked) <= -(-size // PART) + 2
    assert bucket.get("copy") == content


def test_a_copy_replaces_an_existing_object(bucket: Bucket) -> None:
    """And has nothing more to do with what it was made from."""
    bucket.put("a", b"new")
    bucket.put("b", b"old, and longer")

    bucket.copy("a", "b", 3)
    bucket.put("a", b"newer")

    assert (bucket.get("a"), bucket.get("b")) == (b"newer", b"new")


def test_a_copy_can_be_made_twice(bucket: Bucket) -> None:
    """By who goes on with what was killed."""
    bucket.put("a", b"x")

    bucket.copy("a", "b", 1)
    bucket.copy("a", "b", 1)

    assert names(bucket) == ["a", "b"]


def test_a_copy_of_nothing_changes_nothing(bucket: Bucket) -> None:
    bucket.put("b", b"x")

    with pytest.raises(Failure, match="a copy of a to b: ") as failure:
        bucket.copy("a", "b", 1)

    assert (failure.value.code, bucket.get("b"), names(bucket)) == (LOST, b"x", ["b"])


@pytest.mark.parametrize("size", [1, PART + 1])
@pytest.mark.parametrize("fault", ["503", "reset before", "reset after"])
@pytest.mark.usefixtures("parts")
def test_a_copy_is_asked_for_again(bucket: Bucket, way: Way, fault: str, size: int) -> None:
    content = os.urandom(size)
    put(bucket, "file", content)
    way.breaks(fault, "PUT", "copy")

    bucket.copy("file", "copy", size)

    assert bucket.get("copy") == content


# Of S3


@S3
def test_the_source_of_a_copy_is_signed_and_its_tags_are_left(bucket: Bucket, way: Way) -> None:
    bucket.put("a", b"x")

    bucket.copy("a", "b", 1)

    sent = way.headers[-1]
    signed = sent["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {name for name in sent if name.startswith("x-amz-")} <= set(signed)
    assert sent["x-amz-tagging-directive"] == "REPLACE"


ERROR = b"<Error><Code>SlowDown</Code></Error>"


@S3
def test_an_error_in_an_answer_of_200_is_an_error(bucket: Bucket, way: Way) -> None:
    bucket.put("a", b"x")
    way.answers[path_of(bucket, "b")] = (200, b"\n \n<?xml version='1.0'?>" + ERROR)

    with pytest.raises(Failure, match="failed to complete a copy of a to b: SlowDown") as failure:
        bucket.copy("a", "b", 1)

    assert failure.value.code == LOST


@S3
@pytest.mark.parametrize("space", [b"", b"\r\n   "])
def test_a_copy_that_took_long_may_begin_with_spaces(
    bucket: Bucket, way: Way, space: bytes
) -> None:
    body = b"<?xml version='1.0'?><CopyObjectResult><ETag>e</ETag></CopyObjectResult>"
    way.answers[path_of(bucket, "b")] = (200, space + body)

    bucket.copy("a", "b", 1)

    assert way.count("PUT") == 1


@S3
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (ERROR, "SlowDown"),
        (b"<CopyPartResult></CopyPartResult>", "ETag"),
        (b"<html>", "is not XML"),
    ],
)
@pytest.mark.usefixtures("parts")
def test_a_part_that_was_not_copied_is_an_error(
    bucket: S3Bucket, way: Way, monkeypatch: pytest.MonkeyPatch, body: bytes, said: str
) -> None:
    """And the other parts, which cost, are thrown away."""
    put(bucket, "file", bytes(PART + 1))
    real = bucket.send

    def send(ask: Any) -> Any:
        answer = real(ask)
        return answer._replace(body=body) if "partNumber" in dict(ask.query) else answer

    monkeypatch.setattr(bucket, "send", send)

    with pytest.raises(Failure, match=said) as failure:
        bucket.copy("file", "copy", PART + 1)

    assert failure.value.code == LOST
    assert (bucket.get("copy"), way.count("DELETE", "uploadId")) == (None, 1)


# Of Azure


@BLOB
def test_a_copy_that_did_not_end_is_an_error(
    bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("a", b"x")
    real = bucket.send

    def send(ask: Any) -> Any:
        answer = real(ask)
        answer.headers.replace_header("x-ms-copy-status", "pending")
        return answer

    monkeypatch.setattr(bucket, "send", send)

    with pytest.raises(Failure, match="failed to complete a copy of a to b") as failure:
        bucket.copy("a", "b", 1)

    assert failure.value.code == LOST


@BLOB
@pytest.mark.parametrize("fault", ["403", "409", "503", "reset before"])
@pytest.mark.parametrize("size", [1, PART + 1])
@pytest.mark.usefixtures("parts")
def test_no_failure_of_a_copy_shows_the_signature(
    bucket: Bucket, way: Way, fault: str, size: int
) -> None:
    put(bucket, "a", bytes(size))
    way.breaks(fault, "PUT", "copy", times=100)

    with pytest.raises(Failure) as failure:
        bucket.copy("a", "copy", size)

    assert "sig=" in way.headers[-1]["x-ms-copy-source"]
    assert not any(word in str(failure.value) for word in ("sig=", os.environ["RUNSPEC_SAS"]))


WHERE = {"RUNSPEC_STORE": "https://a.blob.core.windows.net/c/p q"}


def test_a_source_has_the_right_to_be_read() -> None:
    """By the signature in its URL, or by a token in a header of its own."""
    with_signature = BlobStore({**WHERE, "RUNSPEC_SAS": "?sv=1&sig=x"})
    url = "https://a.blob.core.windows.net/c/p%20q/%C3%A9%23%3F"

    assert with_signature.source("é#?") == (("x-ms-copy-source", url + "?sv=1&sig=x"),)
    with Identity() as identity:
        ours = "/subscriptions/s/ours"
        env = {**WHERE, "RUNSPEC_IDENTITY": ours, **identity.machine([ours])}
        found = dict(BlobStore(env).source("é#?"))
        kind, _, token = found.pop("x-ms-copy-source-authorization").partition(" ")
        assert kind == "Bearer" and identity.tokens.good(token, "https://storage.azure.com")
    assert found == {"x-ms-copy-source": url}


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, PART + 9])
@pytest.mark.usefixtures("parts")
def test_a_copy_can_be_authorized_by_a_token(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("azurite")
    certificate, ours = certificates.made(tmp_path), "/subscriptions/s/ours"
    monkeypatch.setattr(boot, "tls_contexts", [])
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.authority))
    monkeypatch.delenv("RUNSPEC_SAS", raising=False)
    content = os.urandom(size)
    with Identity() as identity, Blobs(tmp_path / "blobs", certificate=certificate) as blobs:
        blobs.make_container("inside")
        store = {"RUNSPEC_STORE": f"{blobs.url}/inside/p", "RUNSPEC_BLOB_URL": blobs.url}
        for name, value in {**store, **identity.machine([ours]), "RUNSPEC_IDENTITY": ours}.items():
            monkeypatch.setenv(name, value)
        bucket = connect()
        put(bucket, "a b", content)

        bucket.copy("a b", "é#?", size)
        bucket.delete("a b")

        assert (names(bucket), bucket.get("é#?")) == (["é#?"], content)


def test_a_source_whose_url_is_too_long_is_said_without_its_signature() -> None:
    store = BlobStore({**WHERE, "RUNSPEC_SAS": "sv=1&sig=secret"})

    with pytest.raises(Failure, match=r"too long .* 2048") as failure:
        store.source("日" * 250)

    assert failure.value.code == USAGE and "sig=" not in str(failure.value)


# Of a folder


def inode(bucket: Bucket, key: str) -> int:
    assert isinstance(bucket, FolderBucket)
    return os.stat(bucket.path_of(key)).st_ino


@FOLDER
def test_a_copy_in_a_folder_takes_no_place(bucket: Bucket) -> None:
    bucket.put("a", b"x")

    bucket.copy("a", "deep/er/b", 1)

    assert inode(bucket, "a") == inode(bucket, "deep/er/b")


@FOLDER
@pytest.mark.parametrize("code", ["EPERM", "ENOSYS", "EOPNOTSUPP", "EXDEV", "EMLINK"])
def test_where_there_are_no_links_bytes_are_copied(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(getattr(errno, code), code)

    monkeypatch.setattr(os, "link", refuse)
    content = os.urandom(3_000_000)
    put(bucket, "a", content)
    bucket.put("b", b"before")

    bucket.copy("a", "b", len(content))

    assert bucket.get("b") == content and inode(bucket, "a") != inode(bucket, "b")


@FOLDER
def test_a_link_whose_reply_is_lost_is_known_again(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS makes the link, and then finds it there."""
    real = os.link

    def lost(source: str, target: str) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", lost)
    bucket.put("a", b"x")

    bucket.copy("a", "b", 1)

    assert bucket.get("b") == b"x"


@FOLDER
@pytest.mark.parametrize(
    ("code", "ends"), [("EIO", LOST), ("EDQUOT", UNSAVED_CODE), ("ENOSPC", UNSAVED_CODE)]
)
def test_a_refused_copy_leaves_the_old_file(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, code: str, ends: int
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(getattr(errno, code), "refused")

    monkeypatch.setattr(os, "link", refuse)
    bucket.put("a", b"x")
    bucket.put("b", b"before")

    with pytest.raises(Failure, match="the store refuses a copy of a to b: refused") as failure:
        bucket.copy("a", "b", 1)

    assert (failure.value.code, bucket.get("b")) == (ends, b"before")


def files(bucket: Bucket) -> list[str]:
    assert isinstance(bucket, FolderBucket)
    root = Path(bucket.root)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@FOLDER
def test_a_copy_leaves_no_name_of_its_own(bucket: Bucket) -> None:
    """rename(2) does nothing where both names are of one file."""
    bucket.put("a", b"x")

    bucket.copy("a", "b", 1)
    bucket.copy("a", "b", 1)
    with pytest.raises(Failure):
        bucket.copy("c", "b", 1)

    assert files(bucket) == ["a", "b"]


@FOLDER
def test_a_copy_is_a_file_where_a_folder_was_and_the_reverse(bucket: Bucket) -> None:
    bucket.put("a", b"x")
    bucket.put("out/one/old", b"1")
    bucket.put("out/two", b"2")

    bucket.copy("a", "out/one", 1)
    bucket.copy("a", "out/two/new", 1)

    assert files(bucket) == ["a", "out/one", "out/two/new"]


@FOLDER
@pytest.mark.parametrize("do", ["source", "target", "delete", "delete_all"])
@pytest.mark.parametrize("key", ["../a", "a/../../b", "/etc/x", "", "x/.rs-0123456789abcdef.part"])
def test_no_copy_and_no_deletion_leads_out(bucket: Bucket, do: str, key: str) -> None:
    bucket.put("a", b"x")
    calls: dict[str, Callable[[], None]] = {
        "source": lambda: bucket.copy(key, "b", 1),
        "target": lambda: bucket.copy("a", key, 1),
        "delete": lambda: bucket.delete(key),
        "delete_all": lambda: bucket.delete_all([key]),
    }

    with pytest.raises(Failure) as failure:
        calls[do]()

    assert (failure.value.code, files(bucket)) == (USAGE, ["a"])


# Deletions


@pytest.mark.parametrize("name", NAMES)
def test_delete_removes_one_object_alone(bucket: Bucket, name: str) -> None:
    for key in ("a", "in/" + name, "in/" + name + "x"):
        bucket.put(key, b"1")

    bucket.delete("in/" + name)

    assert bucket.get("in/" + name) is None
    assert names(bucket) == ["a", "in/" + name + "x"]


def test_deleting_a_missing_object_succeeds(bucket: Bucket) -> None:
    """Below what is an object, and above one, too."""
    bucket.put("a/b", b"1")

    for key in ("c", "d/e", "a", "a/b/c"):
        bucket.delete(key)

    assert names(bucket) == ["a/b"]


def test_a_deletion_succeeds_though_its_reply_is_lost(bucket: Bucket, way: Way) -> None:
    bucket.put("a", b"1")
    way.breaks("reset after", "DELETE")

    bucket.delete("a")

    assert (bucket.get("a"), way.count("DELETE")) == (None, 2)


def test_a_deletion_answered_with_404_succeeds(bucket: Bucket, way: Way) -> None:
    """S3 does not, and some that are like it do."""
    way.breaks("404", "DELETE")

    bucket.delete("a")

    assert way.count("DELETE") == 1


def test_delete_all_deletes_many_objects(bucket: Bucket) -> None:
    keys = [f"a/{n}" for n in range(20)]
    for key in [*keys, "b"]:
        bucket.put(key, b"")

    bucket.delete_all([*keys, "never"])
    bucket.delete_all([])

    assert names(bucket) == ["b"]


def test_an_object_that_cannot_be_deleted_stops_no_other_deletion(bucket: Bucket, way: Way) -> None:
    """And is told at the end, in one failure."""
    keys = [f"a/{n}" for n in range(20)]
    for key in keys:
        bucket.put(key, b"")
    way.breaks("403", "DELETE", "a/3")
    way.breaks("403", "DELETE", "a/4")

    with pytest.raises(
        Failure, match=r"2 of 20 objects could not be deleted: the store refuses a/[34]: 403"
    ) as failure:
        bucket.delete_all(keys)

    assert (failure.value.code, names(bucket)) == (LOST, ["a/3", "a/4"])
    bucket.delete_all(keys)
    assert names(bucket) == []
