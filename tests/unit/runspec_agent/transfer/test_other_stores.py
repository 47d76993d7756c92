"""Mounts of buckets and containers of other owners: what comes, by which identity, and how a refusal reads."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from azure.storage.blob import ContainerClient, PublicAccess

from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store.blob import BlobBucket
from runspec_agent.store.manifest import Entry
from runspec_agent.transfer import other_stores
from runspec_agent.transfer.output_target import Target, folder_of
from runspec_emulators.aws.region import KEYS, Objects
from runspec_emulators.azure_services.blob import Blobs
from tests.support.agent.breakable_stores import Way

pytestmark = pytest.mark.process
FILES = {
    "set/a": b"A",
    "set/deep/b+ é": b"B",
    "set/empty/": b"",
    "set/mark": b"",
    "set/mark/c": b"C",
}
FOUND = {"a": b"A", "deep/b+ é": b"B", "mark/c": b"C"}
REGION = "ap-south-1"


@pytest.fixture
def s3(objects: Objects, pauses: list[float]) -> Iterator[Way]:
    address = f"http://127.0.0.1:{objects.port}"
    login = {
        "aws_access_key_id": KEYS["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"],
    }
    client = boto3.client("s3", REGION, endpoint_url=address, **login)
    with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
        where = {"LocationConstraint": REGION}
        client.create_bucket(Bucket="others", CreateBucketConfiguration=where, ACL="public-read")
    for key, content in FILES.items():
        client.put_object(Bucket="others", Key=key, Body=content, ACL="public-read")
    with Way(address) as way:
        yield way


def env(way: Way, **more: str) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL_S3": way.url, "RUNSPEC_REGION": "eu-west-1", **KEYS, **more}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.parametrize("url", ["s3://others/set", "s3://others/set/", "s3://others"])
def test_all_below_a_prefix_comes_as_a_folder(url: str, s3: Way, tmp_path: Path) -> None:
    """Empty objects that stand for folders are none. Requests are signed for the region of the bucket."""
    other_stores.get({"source": url}, str(tmp_path / "in"), env(s3))

    top = tmp_path / "in" / ("set" if url.endswith("others") else "")
    assert tree(top) == FOUND
    signed = {re.findall(r"/([a-z0-9-]+)/s3/", h["authorization"])[0] for h in s3.headers[1:]}
    assert signed == {REGION}


def test_an_object_comes_as_a_file(s3: Way, tmp_path: Path) -> None:
    other_stores.get({"source": "s3://others/set/deep/b+ é"}, str(tmp_path / "new" / "b"), env(s3))

    assert (tmp_path / "new" / "b").read_bytes() == b"B"


def test_a_public_bucket_is_read_without_an_identity(
    s3: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = env(s3)
    for name in KEYS:
        found.pop(name)
        monkeypatch.delenv(name, raising=False)

    other_stores.get({"source": "s3://others/set", "anonymous": True}, str(tmp_path / "in"), found)

    assert tree(tmp_path / "in") == FOUND
    assert not [h for h in s3.headers if "authorization" in h]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://others/se", "s3://others/se: there is nothing"),
        ("s3://missing/set", "s3://missing/set: there is no such bucket (404)"),
    ],
)
def test_a_missing_source_is_named(url: str, says: str, s3: Way, tmp_path: Path) -> None:
    with pytest.raises(Failure, match=re.escape(says)) as told:
        other_stores.get({"source": url}, str(tmp_path / "in"), env(s3))

    assert told.value.code == USAGE


@pytest.mark.parametrize(
    ("anonymous", "says"),
    [
        (False, "the role of the job has no right to it: see what runspec policy prints (403"),
        (True, "it is not public: remove anonymous: true (403"),
    ],
)
def test_a_refusal_names_the_bucket_and_who_lacks_the_right(
    anonymous: bool, says: str, s3: Way, tmp_path: Path
) -> None:
    s3.breaks("403", "GET", times=9)

    with pytest.raises(Failure, match=re.escape(f"s3://others/set: {says}")) as told:
        other_stores.get(
            {"source": "s3://others/set", "anonymous": anonymous}, str(tmp_path), env(s3)
        )

    assert told.value.code == USAGE


def test_keys_come_from_the_file_of_aws_too(
    s3: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{name} = {value}" for name, value in KEYS.items()]
    (tmp_path / "keys").write_text("\n".join(["[lab]", *lines]))
    found = env(s3, AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "keys"), AWS_PROFILE="lab")
    for name in KEYS:
        found.pop(name)
        monkeypatch.setenv(name, "")  # restored after the test

    other_stores.get({"source": "s3://others/set"}, str(tmp_path / "in"), found)

    assert tree(tmp_path / "in") == FOUND


@pytest.fixture
def container(blobs: Blobs, pauses: list[float]) -> Iterator[ContainerClient]:
    login = {"account_name": blobs.account, "account_key": blobs.key}
    with ContainerClient(blobs.url, "others", login) as client:
        if not client.exists():
            client.create_container()
            for key in ("set/a", "set/deep/b+ é"):
                client.upload_blob(key, FILES[key])
        yield client


def azure_env(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> BlobBucket:
    """Return the own store of a job in Azure; the other container is in the same emulator."""
    monkeypatch.setenv("RUNSPEC_STORE", f"{blobs.url}/inside/p")
    monkeypatch.setenv("RUNSPEC_BLOB_URL", blobs.url)
    monkeypatch.setenv("RUNSPEC_SAS", blobs.sas("inside"))
    return BlobBucket()


@pytest.mark.slow
@pytest.mark.parametrize("access", [PublicAccess.CONTAINER, PublicAccess.BLOB, None])
def test_a_public_container_is_read_and_no_other(
    access: PublicAccess | None,
    container: ContainerClient,
    blobs: Blobs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If only the blobs of a container are public, single blobs can be mounted: nobody may list them."""
    container.set_container_access_policy({}, public_access=access)
    own, url = azure_env(blobs, monkeypatch), f"az://{blobs.account}/others"
    folder = {"source": f"{url}/set", "anonymous": True}

    if access is PublicAccess.CONTAINER:
        other_stores.get(folder, str(tmp_path / "in"), {}, own)
        assert tree(tmp_path / "in") == {"a": b"A", "deep/b+ é": b"B"}
    else:
        with pytest.raises(Failure, match=f"{url}/set: it is not public: remove anonymous: true"):
            other_stores.get(folder, str(tmp_path / "in"), {}, own)
    if access is not None:
        other_stores.get({**folder, "source": f"{url}/set/a"}, str(tmp_path / "a"), {}, own)
        assert (tmp_path / "a").read_bytes() == b"A"


@pytest.mark.slow
def test_a_container_is_read_with_a_token_of_the_environment(
    container: ContainerClient, blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, source = azure_env(blobs, monkeypatch), f"az://{blobs.account}/others"

    other_stores.get(
        {"source": source}, str(tmp_path / "in"), {other_stores.TOKEN: blobs.sas("others")}, own
    )
    with pytest.raises(Failure, match=f"{source}: the job has no identity for it: put AZURE_"):
        other_stores.get({"source": source}, str(tmp_path / "none"), {}, own)

    assert tree(tmp_path / "in") == {"set/a": b"A", "set/deep/b+ é": b"B"}


def listed(folder: Path) -> dict[str, Entry]:
    """Return the files of *folder* as a save lists them."""
    found = {}
    for name, content in tree(folder).items():
        found[name] = Entry(len(content), 0, hashlib.sha256(content).hexdigest(), "x")
    return found


def test_changed_files_are_written_to_the_target(s3: Way, tmp_path: Path) -> None:
    """Each file once; one that changes while it is sent comes with the next save."""
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_text("1")
    (tmp_path / "b" / "c é").write_text("1")
    target = Target("s3://others/new/", env(s3))
    assert target.follow(str(tmp_path), listed(tmp_path)) == []
    (tmp_path / "a").write_text("2")
    saved = listed(tmp_path)
    (tmp_path / "a").write_text("")
    (line,) = target.follow(str(tmp_path), saved)
    assert line.startswith("a is not in s3://others/new/: ")
    (tmp_path / "a").write_text("3")
    assert target.follow(str(tmp_path), listed(tmp_path)) == []

    assert [call.path for call in s3.calls if call.method == "PUT"].count("/others/new/a") >= 2
    assert s3.count("PUT", "/others/new/b/c%20%C3%A9") == 1
    other_stores.get({"source": "s3://others/new"}, str(tmp_path / "in"), env(s3))
    assert tree(tmp_path / "in") == {"a": b"3", "b/c é": b"1"}


def test_a_refusal_of_a_target_is_a_line_for_each_file(s3: Way, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    target = Target("s3://others/refused", env(s3))
    s3.breaks("403", "PUT")

    (line,) = target.follow(str(tmp_path), listed(tmp_path))

    assert "the role of the job has no right to it: see what runspec policy prints (403" in line


@pytest.mark.slow
def test_a_container_is_a_target_with_a_token(
    container: ContainerClient, blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, url = azure_env(blobs, monkeypatch), f"az://{blobs.account}/others/new"
    (tmp_path / "a").write_text("1")

    found = Target(url, {other_stores.TOKEN: blobs.sas("others")}, own)

    assert found.follow(str(tmp_path), listed(tmp_path)) == []
    assert container.download_blob("new/a").readall() == b"1"


@pytest.mark.parametrize(
    ("sweep", "nodes", "origin", "folder"),
    [
        ([], 1, None, ""),
        ([["n", ["a", "b"]]], 1, None, "/task-3"),
        ([], 2, None, "/node-1"),
        ([], 2, "first", ""),
        ([["n", ["a", "b"]]], 2, None, "/task-3/node-1"),
    ],
)
def test_tasks_and_nodes_write_to_folders_of_their_own(
    sweep: list[object], nodes: int, origin: str | None, folder: str
) -> None:
    output = {} if origin is None else {"from": origin}

    found = folder_of({"sweep": sweep, "nodes": nodes}, output, TaskIdentity("job", 3, 1, 1))

    assert found == folder
