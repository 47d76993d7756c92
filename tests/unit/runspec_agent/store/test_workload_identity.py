"""Credentials of a pod: keys of the run, or by the token of its service account, which no message has."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs

import pytest

from runspec_agent.base.boot import Ask
from runspec_agent.base.failure import Failure
from runspec_agent.base.job_env import LOST
from runspec_agent.store import workload_identity
from runspec_agent.store.base import connect
from runspec_agent.store.blob import BlobStore
from runspec_agent.store.managed_identity import EARLY_S, REFUSED
from runspec_agent.store.s3 import S3Bucket, S3Store
from runspec_emulators.aws.region import KEYS, Objects
from tests.support.http_server import ReceivedRequest, Reply, Server

pytestmark = pytest.mark.process

TOKEN = "token-of-the-service-account"
S3 = {"RUNSPEC_STORE": "s3://bucket/prefix", "RUNSPEC_REGION": "eu-central-1"}
BLOB = {"RUNSPEC_STORE": "https://account.blob.core.windows.net/jobs/prefix"}

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


class Services:
    """STS, the agent of EKS, and Entra; `asked` has the requests."""

    def __init__(self, server: Server, token: Path) -> None:
        self.url, self.token = server.url, token
        self.asked: list[ReceivedRequest] = []
        self.lasts_s = 3600.0
        self.keys = "AKIA1", "shh"
        self.replies: list[Reply] = []
        token.write_text(TOKEN + "\n")
        server.answering = self.answer

    def answer(self, request: ReceivedRequest) -> Reply:
        self.asked.append(request)
        if self.replies:
            return self.replies.pop(0)
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.lasts_s))
        key, secret = self.keys
        keys = {"AccessKeyId": key, "SecretAccessKey": secret, "Expiration": end}
        if request.path.endswith("/oauth2/v2.0/token"):
            answer = {"access_token": f"t{len(self.asked)}", "expires_in": int(self.lasts_s)}
            return Reply(200, body=json.dumps(answer).encode())
        if request.method == "GET":
            return Reply(200, body=json.dumps({**keys, "Token": "session"}).encode())
        texts = "".join(f"<{k}>{v}</{k}>" for k, v in {**keys, "SessionToken": "session"}.items())
        name = "AssumeRoleWithWebIdentity"
        body = f"<{name}Result><Credentials>{texts}</Credentials></{name}Result>"
        space = "https://sts.amazonaws.com/doc/2011-06-15/"
        return Reply(200, body=f'<{name}Response xmlns="{space}">{body}</{name}Response>'.encode())

    @property
    def irsa(self) -> dict[str, str]:
        return {
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/jobs",
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(self.token),
            "AWS_ENDPOINT_URL_STS": self.url,
            "RUNSPEC_RUN": "train-7k2m9q",
            **POD,
        }

    @property
    def pod_identity(self) -> dict[str, str]:
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(self.token),
            **POD,
        }

    @property
    def azure(self) -> dict[str, str]:
        return {
            "AZURE_FEDERATED_TOKEN_FILE": str(self.token),
            "AZURE_CLIENT_ID": "client",
            "AZURE_TENANT_ID": "tenant",
            "AZURE_AUTHORITY_HOST": self.url + "/",
        }


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with Server(lambda request: Reply(500)) as server:
        yield Services(server, tmp_path / "token")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between requests, which nobody waits for."""
    found: list[float] = []
    names = {name: getattr(time, name) for name in ("time", "strptime")}
    monkeypatch.setattr(workload_identity, "time", SimpleNamespace(**names, sleep=found.append))
    return found


def signed(store: S3Store | BlobStore) -> dict[str, str]:
    ask = Ask("GET", "key")
    return store.sign(ask, *store.path_of(ask))


def test_a_service_account_assumes_its_role(services: Services) -> None:
    """With the token in its file, and once for many requests."""
    store = S3Store({**S3, **services.irsa})

    headers = [signed(store) for _ in range(3)][-1]

    assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIA1/")
    assert headers["x-amz-security-token"] == "session"
    (asked,) = services.asked
    assert {key: value for key, (value,) in parse_qs(asked.body.decode()).items()} == {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": "arn:aws:iam::123456789012:role/jobs",
        "RoleSessionName": "train-7k2m9q",
        "WebIdentityToken": TOKEN,
    }


def test_a_role_in_the_variables_of_a_program_outside_of_pods_is_its_own(
    services: Services,
) -> None:
    """On AWS Batch the agent keeps the role of the job, whatever role its program assumes."""
    variables = services.irsa.keys() - POD.keys()

    store = S3Store({**S3, **{name: services.irsa[name] for name in variables}})

    assert store.keys is None


def test_the_agent_of_eks_has_the_keys_of_a_pod(services: Services) -> None:
    headers = signed(S3Store({**S3, **services.pod_identity}))

    assert "Credential=AKIA1/" in headers["Authorization"]
    assert [request.headers["authorization"] for request in services.asked] == [TOKEN]


def test_a_service_account_gets_tokens_of_entra(services: Services) -> None:
    headers = signed(BlobStore({**BLOB, **services.azure}))

    assert headers["Authorization"] == "Bearer t1"
    (asked,) = services.asked
    assert asked.path == "/tenant/oauth2/v2.0/token"
    assert {key: value for key, (value,) in parse_qs(asked.body.decode()).items()} == {
        "client_id": "client",
        "scope": "https://storage.azure.com/.default",
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": TOKEN,
    }


def test_a_signature_comes_before_an_identity(services: Services) -> None:
    assert BlobStore({**BLOB, **services.azure, "RUNSPEC_SAS": "sv=1"}).login is None


def test_credentials_that_end_are_requested_again_with_the_new_token(services: Services) -> None:
    services.lasts_s = EARLY_S - 10
    store = S3Store({**S3, **services.irsa})
    signed(store)
    services.token.write_text("a newer one")

    signed(store)

    bodies = [parse_qs(request.body.decode()) for request in services.asked]
    assert [body["WebIdentityToken"] for body in bodies] == [[TOKEN], ["a newer one"]]


@pytest.mark.parametrize("kind", ["irsa", "pod_identity", "azure"])
def test_a_refused_identity_ends_the_job_without_its_token(
    services: Services, kind: str, pauses: list[float]
) -> None:
    """Another attempt would not help."""
    says = {
        "irsa": b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>",
        "pod_identity": b'{"message": "AccessDenied"}',
        "azure": b'{"error": "invalid_client", "error_description": "AADSTS70021: no match: x"}',
    }
    code = {"azure": "invalid_client AADSTS70021"}.get(kind, "AccessDenied")
    services.replies = [Reply(403, body=says[kind])]
    env = getattr(services, kind)
    store = BlobStore({**BLOB, **env}) if kind == "azure" else S3Store({**S3, **env})

    with pytest.raises(Failure, match=f"gives no credentials: 403 {code}$") as failure:
        signed(store)

    assert failure.value.code == REFUSED
    assert TOKEN not in str(failure.value)
    assert pauses == []


def test_a_service_that_is_busy_is_asked_again(services: Services, pauses: list[float]) -> None:
    busy = b"<Error><Code>IDPCommunicationError</Code></Error>"
    services.replies = [Reply(503), Reply(400, body=busy), Reply(0)]

    assert "AKIA1" in signed(S3Store({**S3, **services.irsa}))["Authorization"]
    assert pauses == sorted(pauses)
    assert len(pauses) == 3


def test_a_service_that_stays_away_lets_another_attempt_follow(services: Services) -> None:
    services.replies = [Reply(500)] * 6

    with pytest.raises(Failure, match=r"500$") as failure:
        signed(S3Store({**S3, **services.irsa}))

    assert failure.value.code == LOST


def test_an_answer_without_credentials_is_no_crash(services: Services) -> None:
    services.replies = [Reply(200, body=b"<html>")]

    with pytest.raises(Failure, match="the answer has no credentials"):
        signed(S3Store({**S3, **services.irsa}))


def test_a_token_that_cannot_be_read_is_named(services: Services) -> None:
    services.token.unlink()

    with pytest.raises(Failure, match=r"service account cannot be read from .*token: .*No such"):
        signed(S3Store({**S3, **services.irsa}))


def test_the_keys_of_a_store_are_not_those_of_the_program() -> None:
    """Both may be there; a program gets its own alone."""
    env = {
        **S3,
        "AWS_ACCESS_KEY_ID": "of-the-program",
        "AWS_SECRET_ACCESS_KEY": "x",
        "RUNSPEC_S3_ACCESS_KEY_ID": "of-the-store",
        "RUNSPEC_S3_SECRET_ACCESS_KEY": "y",
    }

    assert "Credential=of-the-store/" in signed(S3Store(env))["Authorization"]
    assert set(env) - set(S3) - set(S3Bucket.private) == {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    }


def test_a_job_uses_its_store_by_a_role(
    objects: Objects, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.keys = KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"]
    env = {
        **services.irsa,
        "RUNSPEC_STORE": "s3://inside/by-role",
        "RUNSPEC_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL_S3": objects.url,
    }
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    bucket = connect()

    bucket.put("a/b", b"content")

    assert [entry.key for entry in bucket.listing("a/")] == ["a/b"]
    assert bucket.get("a/b") == b"content"
