"""What a registry is asked, and with which login."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_images.image_plan import parse_name
from runspec_images.image_registry import (
    ImageConfig,
    find_digest,
    read_config,
)
from runspec_images.registry_logins import Login, find_login
from runspec_jobs.provider import CredentialsError, RemoteError
from tests.support.http_server import HOST, ReceivedRequest, Reply, Server

DIGEST = f"sha256:{'5' * 64}"
MANY = 5 << 20
FOUND = Reply(200, {"Docker-Content-Digest": DIGEST})


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        yield found


def image(server: Server) -> str:
    return f"{HOST}:{server.port}/team/jobs:1"


@pytest.mark.process
def test_a_token_is_got_where_the_registry_says(server: Server) -> None:
    asked: list[tuple[str, str]] = []

    def answer(request: ReceivedRequest) -> Reply:
        right = request.headers.get("authorization", "")
        asked.append((request.path, right.partition(" ")[0]))
        if request.path == "/token":
            assert request.query == {"service": "s", "scope": "repository:team/jobs:pull"}
            return Reply(200, {}, json.dumps({"token": "t"}).encode())
        if right == "Bearer t":
            return FOUND
        realm = f'realm="http://{HOST}:{server.port}/token"'
        scope = 'service="s",scope="repository:team/jobs:pull"'
        return Reply(401, {"WWW-Authenticate": f"Bearer {realm},{scope}"})

    server.answering = answer

    assert find_digest(image(server), Login("me", "pw")) == DIGEST
    path = "/v2/team/jobs/manifests/1"
    assert asked == [(path, ""), ("/token", "Basic"), (path, "Bearer")]


@pytest.mark.process
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(401, {"WWW-Authenticate": 'Basic realm="x"'}), CredentialsError),
        (Reply(403), CredentialsError),
        (Reply(500), RemoteError),
        (Reply(200), RemoteError),
    ],
)
def test_a_registry_that_does_not_say_a_digest_is_an_error(
    server: Server, reply: Reply, error: type[Exception]
) -> None:
    server.answering = lambda _: reply

    with pytest.raises(error):
        find_digest(image(server), Login("me", "pw"))


@pytest.mark.process
def test_a_token_is_asked_for_by_http_alone(server: Server) -> None:
    server.answering = lambda _: Reply(401, {"WWW-Authenticate": 'Bearer realm="file:///etc/x"'})

    with pytest.raises(RemoteError, match="names no address that gives tokens"):
        find_digest(image(server), Login("me", "pw"))


@pytest.mark.process
@pytest.mark.parametrize("host", ["tokens.invalid", "localhost:1@tokens.invalid"])
def test_a_login_is_not_sent_in_the_clear_to_another_host(server: Server, host: str) -> None:
    realm = f'Bearer realm="http://{host}/token"'
    server.answering = lambda _: Reply(401, {"WWW-Authenticate": realm})

    with pytest.raises(RemoteError, match="names no address that gives tokens"):
        find_digest(image(server), Login("me", "pw"))


@pytest.mark.process
def test_a_missing_image_has_no_digest(server: Server) -> None:
    server.answering = lambda _: Reply(404)

    assert find_digest(image(server), Login("me", "pw")) is None


@pytest.mark.process
def test_a_login_is_not_sent_to_where_a_registry_redirects(server: Server) -> None:
    rights: list[str | None] = []

    def answer(request: ReceivedRequest) -> Reply:
        right = request.headers.get("authorization")
        if request.path == "/other":
            rights.append(right)
            return FOUND
        if right is None:
            return Reply(401, {"WWW-Authenticate": 'Basic realm="x"'})
        return Reply(307, {"Location": f"http://{HOST}:{server.port}/other"})

    server.answering = answer

    find_digest(image(server), Login("me", "pw"))

    assert rights == [None]


RUNS = {"Entrypoint": ["/serve"], "Cmd": ["-v"], "WorkingDir": "/app"}


def serve(server: Server) -> dict[str, bytes]:
    """Have *server* give an image for two architectures, and return the bytes of what it gives by their digests."""
    kept: dict[str, bytes] = {}

    def keep(content: object) -> str:
        body = json.dumps(content).encode()
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        kept[digest] = body
        return digest

    config = keep({"config": RUNS})
    ours = keep({"config": {"digest": config}, "layers": []})
    entries = [("arm64", keep({"config": {"digest": keep({"config": {}})}})), ("amd64", ours)]
    platforms = [
        {"digest": digest, "platform": {"os": "linux", "architecture": architecture}}
        for architecture, digest in entries
    ]
    kept["1"] = json.dumps({"manifests": platforms}).encode()
    kept["plain"] = kept[ours]
    kept["artifact"] = b'{"layers": []}'
    kept["broken"] = b"<html>"
    kept |= {"ours": ours.encode(), "config": config.encode()}

    def answer(request: ReceivedRequest) -> Reply:
        body = kept.get(request.path.rpartition("/")[2])
        return Reply(404) if body is None else Reply(200, {}, body)

    server.answering = answer
    return kept


@pytest.mark.process
@pytest.mark.parametrize("named", [":1", ":plain", "@DIGEST"])
def test_the_entrypoint_of_an_image_is_read_for_the_processor(server: Server, named: str) -> None:
    """The manifest may be one of many, as for images of several architectures, or the image's own."""
    ours = serve(server)["ours"].decode()
    repository = f"{HOST}:{server.port}/team/jobs"

    found = read_config(repository + named.replace("DIGEST", ours), "amd64")

    assert found == ImageConfig(f"{repository}@{ours}", RUNS)


@pytest.mark.process
@pytest.mark.parametrize(
    ("named", "architecture", "why"),
    [
        ("2", "amd64", "has no image 127.0.0.1:"),
        ("1", "riscv64", "has no image for linux/riscv64"),
        ("artifact", "amd64", "has no image that runs"),
        ("broken", "amd64", "gave no description"),
    ],
)
def test_an_image_without_a_configuration_is_an_error(
    server: Server, named: str, architecture: str, why: str
) -> None:
    serve(server)

    with pytest.raises(RemoteError, match=why):
        read_config(f"{HOST}:{server.port}/team/jobs:{named}", architecture)


@pytest.mark.process
@pytest.mark.parametrize(
    "content",
    [
        ["/serve"],
        {"Entrypoint": "/serve"},
        {"Entrypoint": [1]},
        {"Cmd": {"a": 1}},
        {"Entrypoint": ["/serve"], "WorkingDir": 5},
        {"Entrypoint": ["a\0b"]},
        {"Cmd": ["\ud800"]},
    ],
)
def test_a_configuration_with_other_types_is_refused(server: Server, content: object) -> None:
    body = json.dumps({"config": content}).encode()
    config = f"sha256:{hashlib.sha256(body).hexdigest()}"
    manifest = json.dumps({"config": {"digest": config}}).encode()
    server.answering = lambda request: Reply(
        200, {}, body if request.path.endswith(config) else manifest
    )

    with pytest.raises(RemoteError, match=r"gave no configuration of .* that runs"):
        read_config(image(server), "amd64")


@pytest.mark.process
@pytest.mark.parametrize("digest", [None, "../../secret", "sha256:a b", "latest"])
def test_a_part_of_an_image_is_asked_for_by_its_digest_alone(
    server: Server, digest: str | None
) -> None:
    server.answering = lambda _: Reply(200, {}, json.dumps({"config": {"digest": digest}}).encode())

    with pytest.raises(RemoteError, match="by no digest of SHA-256"):
        read_config(image(server), "amd64")


@pytest.mark.process
@pytest.mark.parametrize("body", [b"[" * 200_000, b"[]", b"7"])
def test_a_manifest_that_is_no_object_is_an_error(server: Server, body: bytes) -> None:
    server.answering = lambda _: Reply(200, {}, body)

    with pytest.raises(RemoteError, match="gave no description"):
        read_config(image(server), "amd64")


@pytest.mark.process
@pytest.mark.parametrize("answer", [["t"], {}, {"token": 5}, {"token": "hush\r\nX-Other: 1"}])
def test_an_unreadable_token_is_an_error_that_does_not_show_it(
    server: Server, answer: object
) -> None:
    realm = f'Bearer realm="http://{HOST}:{server.port}/token?a=b",service="s"'

    def reply(request: ReceivedRequest) -> Reply:
        if request.path == "/token":
            assert request.query == {"a": "b", "service": "s"}
            return Reply(200, {}, json.dumps(answer).encode())
        return Reply(401, {"WWW-Authenticate": realm})

    server.answering = reply

    with pytest.raises(RemoteError, match="gave no token") as caught:
        find_digest(image(server), Login("me", "pw"))
    assert "hush" not in str(caught.value)


def test_a_name_that_makes_no_address_is_an_error() -> None:
    with pytest.raises(RemoteError, match="cannot reach the registry"):
        find_digest("127.0.0.1:9/a b", Login("me", "pw"))


@pytest.mark.process
def test_a_configuration_of_another_digest_is_refused(server: Server) -> None:
    """What a registry changes on the way would be run by the job."""
    kept = serve(server)
    kept[kept["config"].decode()] = b'{"config": {"Entrypoint": ["/other"]}}'

    with pytest.raises(RemoteError, match="gave other bytes"):
        read_config(f"{HOST}:{server.port}/team/jobs:1", "amd64")


def test_the_login_is_that_of_podman_or_docker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    entries = {"a.example": "me:one", "https://index.docker.io/v1/": "hub:two"}
    auths = {k: {"auth": base64.b64encode(v.encode()).decode()} for k, v in entries.items()}
    (tmp_path / "config.json").write_text(json.dumps({"auths": auths}))

    found = [find_login(host) for host in ("a.example", "docker.io", "other.example")]

    assert found == [Login("me", "one"), Login("hub", "two"), None]
    assert "one" not in repr(found[0])


@pytest.mark.parametrize(
    "content",
    [
        {"auths": None, "credHelpers": None},
        {"auths": {"a.example": None}},
        {"auths": {"a.example": {"auth": "a"}}},
        {"auths": {"a.example": {"auth": "/w=="}}},
    ],
)
def test_an_unreadable_login_is_ignored(
    content: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(content))

    assert find_login("a.example") is None


@pytest.mark.process
def test_identity_tokens_are_told_from_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`az acr login` writes one beside a user without a password, or gives it to a program of docker's."""
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    user = base64.b64encode(b"00000000-0000-0000-0000-000000000000:").decode()
    known = {
        "auths": {"a.example": {"auth": user, "identitytoken": "hush"}},
        "credHelpers": {"b.example": "test"},
    }
    (tmp_path / "config.json").write_text(json.dumps(known))
    helper = tmp_path / "docker-credential-test"
    helper.write_text('#!/bin/sh\necho \'{"Username": "<token>", "Secret": "hush"}\'\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    found = [find_login(host) for host in ("a.example", "b.example")]

    assert found == [Login("<token>", "hush", is_token=True)] * 2
    assert "hush" not in repr(found)


@pytest.mark.process
def test_an_identity_token_is_exchanged_for_one_of_the_repository(server: Server) -> None:
    """https://distribution.github.io/distribution/spec/auth/oauth/"""
    forms: list[dict[str, str]] = []

    def answer(request: ReceivedRequest) -> Reply:
        if request.path == "/oauth2/token":
            assert "authorization" not in request.headers
            forms.append(dict(urllib.parse.parse_qsl(request.body.decode())))
            return Reply(200, {}, json.dumps({"access_token": "t"}).encode())
        if request.headers.get("authorization") == "Bearer t":
            return FOUND
        realm = f'realm="http://{HOST}:{server.port}/oauth2/token"'
        scope = 'service="s",scope="repository:team/jobs:pull"'
        return Reply(401, {"WWW-Authenticate": f"Bearer {realm},{scope}"})

    server.answering = answer

    assert find_digest(image(server), Login("<token>", "hush", is_token=True)) == DIGEST
    wanted = {"grant_type": "refresh_token", "client_id": "runspec", "refresh_token": "hush"}
    assert forms == [{"service": "s", "scope": "repository:team/jobs:pull", **wanted}]


@pytest.mark.process
def test_an_identity_token_is_no_password(server: Server) -> None:
    server.answering = lambda _: Reply(401, {"WWW-Authenticate": 'Basic realm="x"'})

    with pytest.raises(CredentialsError, match="wants a login"):
        find_digest(image(server), Login("<token>", "hush", is_token=True))


def test_names_are_read_as_docker_reads_them() -> None:
    assert parse_name("python:3.11") == ("docker.io", "library/python", "3.11")
    assert parse_name("a.example:5000/b/c") == ("a.example:5000", "b/c", "latest")
    assert parse_name(f"a.example/b:1@{DIGEST}") == ("a.example", "b", DIGEST)
