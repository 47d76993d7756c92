"""The store of jobs from this machine: whatever names are, objects have them, and errors have words and no secrets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from runspec_emulators.aws.region import KEYS, Objects
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.provider import Conflict, CredentialsError, NoAnswer, RemoteError
from runspec_kubernetes import job
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.store import ObjectStore, refused
from runspec_objects import object_store
from tests.support.requirements import need

pytestmark = pytest.mark.process

NAMES = 'a b;a+b;50%;%41;%2F;é;e\u0301;#?&=;~*[]{}|^`"<>; lead;trail ;🚀'.split(";")


@pytest.fixture(scope="module")
def profile(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """The options of a store, and its keys."""
    if request.param == "s3":
        objects = Objects(tmp_path_factory.mktemp("objects"))
        objects.make_bucket("jobs", "eu-central-1")
        options = {"store": "s3://jobs/pre/fix", "region": "eu-central-1", "store_url": objects.url}
        yield {"options": options, "keys": KEYS}
        objects.close()
        return
    need("azurite")
    with Blobs(tmp_path_factory.mktemp("blobs")) as blobs:
        blobs.make_container("jobs")
        options = {"store": f"az://{blobs.account}/jobs/pre/fix", "store_url": blobs.url}
        yield {"options": options, "keys": {"AZURE_STORAGE_KEY": blobs.key}}


KINDS = pytest.mark.parametrize(
    "profile", ["s3", pytest.param("blob", marks=pytest.mark.slow)], indirect=True
)


def open_store(
    profile: dict[str, Any], keys: dict[str, str] | None = None, **more: Any
) -> ObjectStore:
    return ObjectStore(
        KubernetesOptions(**{**profile["options"], **more}),
        profile["keys"] if keys is None else keys,
    )


@KINDS
def test_names_are_kept(profile: dict[str, Any]) -> None:
    """Also those with the characters of URLs, of links and of other alphabets."""
    store = open_store(profile)
    keys = [f"runs/r/{name}" for name in [*NAMES, "x" * 900]]

    for key in keys:
        store.put(key, key.encode())

    assert sorted(entry.key for entry in store.listing("runs/r/")) == sorted(keys)
    assert [store.read(key) for key in keys] == [key.encode() for key in keys]
    assert [store.size(key) for key in keys] == [len(key.encode()) for key in keys]
    assert [store.opened(key).read() for key in keys] == [key.encode() for key in keys]
    store.remove([*keys, "runs/r/none"])
    assert list(store.listing("runs/")) == []


@KINDS
def test_a_list_has_more_than_a_page(profile: dict[str, Any]) -> None:
    """And nothing of a prefix that only begins like it."""
    store = open_store(profile)
    for number in range(1030 if "region" in profile["options"] else 30):
        store.put(f"many/{number}", b"")
    store.put("manyother", b"")

    listed = [entry.key for entry in store.listing("many/")]
    store.remove(listed)

    assert len(set(listed)) == len(listed) >= 30
    assert [entry.key for entry in store.listing("many")] == []
    assert store.read("manyother") == b""


@KINDS
def test_an_object_is_made_once(profile: dict[str, Any]) -> None:
    store = open_store(profile)

    assert [store.put_new("once", b"first"), store.put_new("once", b"second")] == [True, False]
    assert store.read("once") == b"first"


@KINDS
def test_copies_are_made_by_the_service_or_by_this_machine(
    profile: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object of more than 5 GiB is too large for one request."""
    import obstore

    store = open_store(profile)
    store.put("source", b"content")
    store.copy("source", "copy")
    told = obstore.exceptions.GenericError(
        "status code: 400 Bad Request: <Code>InvalidRequest</Code>"
    )

    def refuse(*_: object) -> None:
        raise told

    monkeypatch.setattr(obstore, "copy", refuse)
    with pytest.raises(RemoteError, match=r"400 Bad Request \(InvalidRequest\)"):
        store.copy("source", "small")
    monkeypatch.setattr(object_store, "COPY_BYTES", 5)
    store.copy("source", "large")

    assert [store.read(key) for key in ("copy", "large", "small")] == [b"content", b"content", None]


@KINDS
def test_what_is_not_there_is_said_in_words(profile: dict[str, Any]) -> None:
    kind, place = profile["options"]["store"].split("://")
    other = place.replace("jobs/pre/fix", "others/p")
    missing = open_store(profile, store=f"{kind}://{other}")

    with pytest.raises(RemoteError, match=f"there is no {kind}://{other}"):
        missing.put("key", b"")
    with pytest.raises(RemoteError, match=f"there is no {kind}://{other}"):
        list(missing.listing("runs/"))
    with pytest.raises(Conflict, match="none has been deleted"):
        open_store(profile).copy("none", "copy")
    assert open_store(profile).size("none") is None
    assert open_store(profile).read("none") is None


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["blob"], indirect=True)
def test_a_refused_key_is_an_error_of_the_login(profile: dict[str, Any]) -> None:
    store = open_store(profile, {"AZURE_STORAGE_KEY": "bm9uZQ=="})

    with pytest.raises(CredentialsError, match=r"^write key: 403 Forbidden \(\w+\)\n"):
        store.put("key", b"")


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["blob"], indirect=True)
def test_a_job_reaches_the_container_by_its_signature(
    profile: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At an endpoint of its own, with the variables of the plan."""
    from runspec_agent.store.base import connect

    store = open_store(profile)
    variables = job.store_variables(KubernetesOptions(**profile["options"]))
    for name, value in {**variables, "RUNSPEC_SAS": store.sign(1)}.items():
        monkeypatch.setenv(name, value)

    bucket = connect()
    bucket.put("runs/r/of job", b"content")

    assert store.read("runs/r/of job") == b"content"
    assert [entry.key for entry in bucket.listing("runs/r/")] == ["runs/r/of job"]


def test_a_service_that_cannot_be_reached_is_no_refusal() -> None:
    options = {"store": "s3://jobs/p", "region": "eu-central-1", "store_url": "http://127.0.0.1:9"}

    with pytest.raises(NoAnswer, match=r"^read key: "):
        open_store({"options": options, "keys": KEYS}).read("key")


@pytest.mark.parametrize(
    "name", ["a//b", "./b", "a/..", "a/", "tab\t", "line\n", "\x7f", "\udcff", "x" * 900]
)
def test_a_name_that_no_object_can_have_is_published_under_none(name: str) -> None:
    store = ObjectStore(KubernetesOptions(store="s3://jobs/p"), KEYS)

    assert not store.holds(name)


def test_a_refused_write_without_a_condition_is_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compatible store may answer so. FileExistsError stands for a condition alone."""
    import obstore

    def refuse(*_: object, **__: object) -> None:
        raise obstore.exceptions.AlreadyExistsError("it exists")

    monkeypatch.setattr(obstore, "put", refuse)
    store = ObjectStore(KubernetesOptions(store="s3://jobs/p"), KEYS)

    with pytest.raises(NoAnswer, match="write key: it exists"):
        store.put("key", b"")
    assert not store.put_new("key", b"")


def test_an_answer_to_head_without_a_body_is_a_refused_login() -> None:
    """S3 answers so to a token that has expired."""
    said = "Error performing HEAD http://s3/b/x in 5ms - Server returned non-2xx status code: 400 Bad Request: "

    with pytest.raises(CredentialsError, match="400 Bad Request"), refused("look for x"):
        raise OSError(said)


def test_an_object_has_no_more_parts_than_s3_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html"""
    sizes: list[int] = []
    monkeypatch.setattr("obstore.put", lambda *_, chunk_size, **more: sizes.append(chunk_size))
    store = open_store({"options": {"store": "s3://jobs/x", "region": "eu-west-1"}, "keys": KEYS})

    for count in (1, 10_000 << 23, (10_000 << 23) + 1):
        store.put_blocks("key", iter(()), count)

    assert sizes == [8 << 20, 8 << 20, (8 << 20) + 1]


def test_azure_is_asked_by_its_command_line_tool_where_its_library_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "obstore.auth.azure", None)

    store = open_store({"options": {"store": "az://account/jobs/x"}, "keys": {}})

    assert store.native.config["use_azure_cli"] == "true"
