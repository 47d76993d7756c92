"""Emulators serve their user alone: no other user of the machine, and no page of a browser, has the key."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from runspec_emulators import privacy
from runspec_emulators.aws import Server, Settings, serve, signature
from runspec_emulators.aws.region import KEYS, PAIR, Objects
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.identity import APP_VERSION, Identity
from runspec_emulators.batch_ai import BatchAI
from runspec_emulators.frame.listening import Closing

pytestmark = pytest.mark.process
MAKE: Mapping[str, Callable[[Path], Any]] = {
    "aws": lambda folder: serve(Settings(folder)),
    "azure-batch": AzureBatch,
    "azure-batch-ai": BatchAI,
}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(params=MAKE)
def emulator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    found: Closing = MAKE[request.param](tmp_path)
    with found:
        yield found


@pytest.fixture
def endpoint() -> Iterator[Identity]:
    with Identity() as found:
        yield found


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Server]:
    with serve(Settings(tmp_path)) as server:
        yield server


def asked(url: str, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str]:
    link = http.client.HTTPConnection(url.partition("//")[2], timeout=60)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    link.request(method, path, body, given)
    answer = link.getresponse()
    text = answer.read().decode()
    link.close()
    return answer.status, text


CONTROL = privacy.HEADER.replace("-", "_")


@pytest.mark.parametrize("path", ["calls", "jobs", "tasks", "nodes"])
def test_a_control_path_without_the_key_is_refused(emulator: Any, path: str) -> None:
    for key in ({}, {CONTROL: ""}, {CONTROL: "another"}):
        assert asked(emulator.url, "GET", f"/_rehearsal/{path}", **key)[0] == 403

    assert asked(emulator.url, "GET", "/_rehearsal/calls", **{CONTROL: privacy.KEY})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": ""},
    ],
)
def test_a_page_of_a_browser_is_refused_even_with_the_key(
    emulator: Any, endpoint: Identity, headers: dict[str, str]
) -> None:
    key = {CONTROL: privacy.KEY}
    path = f"/msi/token?resource=x&api-version={APP_VERSION}"
    header = {"X_Identity_Header": endpoint.header}

    assert asked(emulator.url, "GET", "/_rehearsal/calls", **key, **headers)[0] == 403
    assert asked(endpoint.url, "GET", path, **header, **headers)[0] == 403
    assert asked(endpoint.url, "GET", path, **header)[0] == 200


@pytest.mark.parametrize("kind", ["text/plain", "Text/Plain; charset=utf-8", "multipart/form-data"])
def test_a_request_that_an_html_form_can_send_is_refused(emulator: Any, kind: str) -> None:
    given = {CONTROL: privacy.KEY, "Content_Type": kind}

    assert asked(emulator.url, "PUT", "/_rehearsal/faults", "[]", **given)[0] == 415
    assert asked(emulator.url, "POST", "/v1/submitjob", "{}", **given)[0] == 415


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:80", "LOCALHOST", "[::1]:80", "127.0.0.9"]
)
def test_an_address_is_no_name_of_a_page(emulator: Any, host: str) -> None:
    _, said = asked(emulator.url, "GET", "/x", Host=host)

    assert "no name of this server" not in said


def test_every_operation_of_aws_wants_a_signature_by_the_key(aws: Server) -> None:
    for secret in ("rehearsal", "", KEYS["AWS_SECRET_ACCESS_KEY"][:-1] + "!"):
        batch = boto3.client(
            "batch",
            region_name="us-east-1",
            endpoint_url=aws.url,
            aws_access_key_id="rehearsal",
            aws_secret_access_key=secret or "x",
        )
        with pytest.raises(ClientError) as refused:
            batch.describe_job_queues()
        assert refused.value.response["Error"]["Code"] == "InvalidSignatureException"

    status, said = asked(aws.url, "POST", "/v1/describejobqueues", "{}", **_small(JSON))

    assert (status, "not signed" in said) == (403, True)


def test_a_signed_request_with_another_body_target_or_time_is_refused(aws: Server) -> None:
    host = {"host": aws.url.partition("//")[2], "content-type": "application/json"}
    own = signature.sign("POST", "/v1/describejobs", host, b"{}", PAIR, "us-east-1", "batch")
    unhashed = {k: v for k, v in own.items() if k != "x-amz-content-sha256"}
    later = {**own, "x-amz-date": "20200101T000000Z"}

    def code(target: str, body: str, headers: Mapping[str, str]) -> int:
        return asked(aws.url, "POST", target, body, **_small(headers))[0]

    assert code("/v1/describejobs", '{"jobs": []}', unhashed) == 403
    assert code("/v1/describejobs", '{"jobs": ["other"]}', own) == 403
    assert code("/v1/submitjob", "{}", own) == 403
    assert code("/v1/describejobs", "{}", later) == 403


def _small(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in headers.items()}


@pytest.mark.slow
def test_motos_own_services_want_a_signature_too(tmp_path: Path) -> None:
    """S3 with all inputs, the tables of all services that moto shows to everybody, and its control paths."""
    objects = Objects(tmp_path)
    try:
        objects.make_bucket("inputs", "us-east-1")
        s3 = {"region_name": "us-east-1", "endpoint_url": objects.url}
        mine: dict[str, Any] = {name.lower(): value for name, value in KEYS.items()}
        ours = boto3.client("s3", **s3, **mine, config=Config(signature_version="s3v4"))
        ours.put_object(Bucket="inputs", Key="a b/ä+~", Body=b"secret")
        link = ours.generate_presigned_url("get_object", {"Bucket": "inputs", "Key": "a b/ä+~"})
        ways = ["/", "/inputs", "/inputs/a%20b/%C3%A4%2B~", "/moto-api/", "/moto-api/data.json"]

        codes = [asked(objects.url, "GET", path)[0] for path in ways]
        reset = asked(objects.url, "POST", "/moto-api/reset")[0]
        theirs = boto3.client("s3", **s3, aws_access_key_id="a", aws_secret_access_key="b")
        with pytest.raises(ClientError, match="the signature is another"):
            theirs.list_buckets()

        assert (codes, reset) == ([403] * len(ways), 403)
        target = link.removeprefix(objects.url)
        assert asked(objects.url, "GET", target) == (200, "secret")
        assert (
            asked(objects.url, "GET", target.replace("X-Amz-Expires=3600", "X-Amz-Expires=36000"))[
                0
            ]
            == 403
        )
        assert asked(objects.url, "GET", target, Origin="http://evil.example")[0] == 403
    finally:
        objects.close()
