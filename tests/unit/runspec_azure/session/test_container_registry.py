"""The exchange of a login of Azure for one at a registry: https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator

import pytest

from runspec_azure.session import container_registry
from runspec_images.image_registry import find_digest
from runspec_images.registry_logins import Login
from runspec_jobs.provider import CredentialsError, NoAnswer, RemoteError
from tests.support.azure.resource_manager import Login as Credential
from tests.support.http_server import HOST, ReceivedRequest, Reply, Server

DIGEST = f"sha256:{'5' * 64}"

pytestmark = pytest.mark.process


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        yield found


def test_a_token_of_azure_becomes_one_of_the_registry_and_then_of_the_repository(
    server: Server,
) -> None:
    host = f"{HOST}:{server.port}"
    scope = "repository:team/jobs:pull"
    asked: list[tuple[str, dict[str, str]]] = []

    def answer(request: ReceivedRequest) -> Reply:
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        asked.append((f"{request.method} {request.path}", form))
        if request.path == "/oauth2/exchange":
            return Reply(200, {}, json.dumps({"refresh_token": "refresh"}).encode())
        if request.path == "/oauth2/token":
            return Reply(200, {}, json.dumps({"access_token": "access"}).encode())
        if request.headers.get("authorization") == "Bearer access":
            return Reply(200, {"Docker-Content-Digest": DIGEST})
        realm = f'realm="http://{host}/oauth2/token",service="{host}",scope="{scope}"'
        return Reply(401, {"WWW-Authenticate": f"Bearer {realm}"})

    server.answering = answer

    login = container_registry.log_in(Credential(), host)

    assert login == Login("00000000-0000-0000-0000-000000000000", "refresh", is_token=True)
    assert find_digest(f"{host}/team/jobs:1", login) == DIGEST
    exchange = {"grant_type": "access_token", "service": host, "access_token": "a-token"}
    more = {"service": host, "scope": scope, "client_id": "runspec", "refresh_token": "refresh"}
    assert asked[0] == ("POST /oauth2/exchange", exchange)
    assert asked[2] == ("POST /oauth2/token", {"grant_type": "refresh_token", **more})


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(401), CredentialsError),
        (Reply(403), CredentialsError),
        (Reply(404), RemoteError),
        (Reply(200, {}, b"{}"), NoAnswer),
        (Reply(200, {}, b"[]"), NoAnswer),
        (Reply(200, {}, b'{"refresh_token": 1}'), NoAnswer),
        (Reply(200, {}, b'{"refre'), NoAnswer),
    ],
)
def test_a_registry_that_gives_no_token_is_an_error(
    server: Server, reply: Reply, error: type[Exception]
) -> None:
    server.answering = lambda _: reply

    with pytest.raises(error) as caught:
        container_registry.log_in(Credential(), f"{HOST}:{server.port}")

    assert "a-token" not in f"{caught.value!r} {caught.value.__cause__!r}"
