"""What a registry is asked, and with which login."""

from __future__ import annotations

import base64
import json
import os
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_images.image_registry import find_digest, parse_name
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
