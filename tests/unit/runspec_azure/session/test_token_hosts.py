"""Logins go to hosts of Azure's clouds and to those of the user's profile, wherever an answer may lead."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.pipeline import PipelineRequest
from azure.core.rest import HttpRequest

from runspec_azure.discover import Subscription
from runspec_azure.session.clients import Session
from runspec_azure.session.management import Management
from runspec_azure.session.transport import TokenHosts
from runspec_azure.signed import Signer
from runspec_batchai.options import BatchAiOptions
from runspec_batchai.session import Arm
from runspec_jobs.provider import CredentialsError
from tests.support.azure.specs import options
from tests.support.http_server import Reply, Server

CANARY = "canary-in-a-coal-mine"
SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
JSON = {"Content-Type": "application/json"}


def logins(server: Server) -> list[str]:
    """Return the Authorization of each request that came."""
    return [request.headers.get("authorization", "") for request in server.asked]


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    with Server(lambda _: Reply(200, JSON, b'{"value": []}')) as found:
        yield found


def next_page(elsewhere: Server, name: str) -> Reply:
    return Reply(200, JSON, json.dumps({"value": [], name: f"{elsewhere.url}/next"}).encode())


def redirect(elsewhere: Server) -> Reply:
    return Reply(307, {"Location": f"{elsewhere.url}/next"}, b"{}")


@pytest.mark.process
@pytest.mark.parametrize("lead", ["the next page", "a redirect"])
def test_no_token_follows_an_answer_of_batch_ai_to_another_host(
    elsewhere: Server, lead: str
) -> None:
    answer = next_page(elsewhere, "nextLink") if lead == "the next page" else redirect(elsewhere)
    with Server(lambda _: answer) as service:
        own = {"arm_url": service.url, "subscription": SUBSCRIPTION, "location": "eastus"}
        arm = Arm(BatchAiOptions.model_validate(own), retries=0)
        arm.bearer.token = AccessToken(CANARY, int(time.time()) + 3600)

        with pytest.raises(CredentialsError, match="not a host of Azure"):
            arm.usages()

    assert logins(service) == [f"Bearer {CANARY}"]
    assert elsewhere.asked == []


@pytest.mark.process
def test_no_signature_follows_a_list_of_azure_batch_to_another_host(
    elsewhere: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_KEY", "c2VjcmV0IGtleQ==")
    with Server(lambda _: next_page(elsewhere, "odata.nextLink")) as service:
        own = options(batch_url=service.url, batch_account="jobs", batch_key="env:BATCH_KEY")

        with pytest.raises(CredentialsError, match="not a host of Azure"):
            Session(own).pages("Pool_List")

    assert len(service.asked) == 1
    assert elsewhere.asked == []


class Login:
    def get_token(self, *scopes: str, **more: object) -> AccessToken:
        return AccessToken(CANARY, int(time.time()) + 3600)


def test_each_client_that_sends_a_login_has_the_policy_behind_redirects_and_before_who_signs() -> (
    None
):
    own = options(subscription=SUBSCRIPTION)
    session = Session(own)
    session.__dict__["login"] = Login()
    manager: Any = Management(own, Login()).client
    subscription: Any = Subscription(own, Login(), base_url="https://management.azure.com")
    clients: list[Any] = [session.writer, session.reader, manager]
    clients += [subscription.compute, subscription.resources]

    for client in clients:
        names = _policies(client)
        assert names.index("RedirectPolicy") < names.index("TokenHosts")
        signs = [n for n in names if "Credential" in n or "Authentication" in n]
        assert names.index("TokenHosts") < names.index(signs[0])


def _policies(client: Any) -> list[str]:
    pipeline = client._client._pipeline
    found = [getattr(one, "_policy", one) for one in pipeline._impl_policies]
    return [
        "RedirectPolicy" if "RedirectPolicy" in type(one).__name__ else type(one).__name__
        for one in found
    ]


PROFILE = {"batch_url": "https://mine.example:8443/batch", "blob_url": "http://127.0.0.1:10000/a"}


@pytest.mark.parametrize(
    "url,allowed",
    [
        ("https://jobs.westeurope.batch.azure.com/pools", True),
        ("https://jobs.westeurope.batch.azure.com:443/pools", True),
        ("https://a.usgovvirginia.batch.usgovcloudapi.net/", True),
        ("https://management.chinacloudapi.cn/subscriptions", True),
        ("https://mine.example:8443/elsewhere", True),
        ("http://127.0.0.1:10000/b", True),
        ("https://mine.example/", False),
        ("http://mine.example:8443/", False),
        ("http://jobs.westeurope.batch.azure.com/", False),
        ("https://jobs.westeurope.batch.azure.com:8443/", False),
        ("https://batch.azure.com.example.com/", False),
        ("https://evilbatch.azure.com.example/", False),
        ("https://notbatch.azure.com/", False),
        ("https://batch.azure.com@example.com/", False),
        ("https://user@management.azure.com/", False),
        ("https://stranger.example/", False),
        ("file:///etc/passwd", False),
    ],
)
def test_hosts_are_those_of_the_clouds_and_of_the_profile(url: str, allowed: bool) -> None:
    policy = TokenHosts(options(**PROFILE))
    request: PipelineRequest[Any] = PipelineRequest(HttpRequest("GET", url), None)  # type: ignore[arg-type]  # no transport

    assert policy.allows(url) == allowed
    if allowed:
        policy.on_request(request)
    else:
        with pytest.raises(CredentialsError):
            policy.on_request(request)


def test_a_signature_of_a_user_follows_no_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage SDK signs anew wherever it is led."""
    asked: dict[str, Any] = {}

    class Client:
        def __init__(self, end: str, **how: Any) -> None:
            asked.update(how)
            raise CredentialsError("looked at")

    monkeypatch.setattr("runspec_azure.signed.BlobServiceClient", Client)
    session = Session(options())
    session.__dict__["login"] = Login()
    from runspec_azure.store import Blobs

    with pytest.raises(CredentialsError, match="looked at"):
        Signer(Blobs(session)).delegation()

    assert asked["permit_redirects"] is False
