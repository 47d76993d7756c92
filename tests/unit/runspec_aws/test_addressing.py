"""The signed URLs and boto3 itself ask for a bucket at the same URL."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest

from runspec_aws.options import AwsOptions
from runspec_aws.session import Session
from runspec_aws.store.objects import Objects

ENDPOINT = "https://s3.example.com:9000"
PLAIN = "http://127.0.0.1:9000"
CASES = [
    ("eu-central-1", "jobs", None, "https://jobs.s3.eu-central-1.amazonaws.com/key"),
    ("eu-central-1", "my.jobs", None, "https://s3.eu-central-1.amazonaws.com/my.jobs/key"),
    ("us-east-1", "jobs", None, "https://jobs.s3.amazonaws.com/key"),
    ("us-east-1", "my.jobs", None, "https://s3.amazonaws.com/my.jobs/key"),
    ("cn-north-1", "jobs", None, "https://jobs.s3.cn-north-1.amazonaws.com.cn/key"),
    ("cn-north-1", "my.jobs", None, "https://s3.cn-north-1.amazonaws.com.cn/my.jobs/key"),
    ("us-gov-west-1", "jobs", None, "https://jobs.s3.us-gov-west-1.amazonaws.com/key"),
    ("us-gov-west-1", "my.jobs", None, "https://s3.us-gov-west-1.amazonaws.com/my.jobs/key"),
    ("eu-central-1", "jobs", ENDPOINT, f"{ENDPOINT}/jobs/key"),
    ("eu-central-1", "my.jobs", ENDPOINT, f"{ENDPOINT}/my.jobs/key"),
    ("eu-central-1", "jobs", PLAIN, f"{PLAIN}/jobs/key"),
    ("eu-central-1", "my.jobs", PLAIN, f"{PLAIN}/my.jobs/key"),
]


@pytest.fixture
def session(region: str, bucket: str, end: str | None, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    if end is not None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", end)
    return Session(AwsOptions(region=region, bucket=bucket))


class Sent(Exception):
    """The URL of a request that is not sent."""


def url_of_boto3(session: Session) -> str:
    def stop(request: Any, **_: Any) -> NoReturn:
        raise Sent(request.url)

    client = session.look("s3")
    client.meta.events.register("before-send.s3", stop)
    with pytest.raises(Sent) as caught:
        client.head_object(Bucket=session.bucket, Key="key")
    return str(caught.value)


@pytest.mark.parametrize(("region", "bucket", "end", "wanted"), CASES)
def test_a_bucket_has_one_url(session: Session, wanted: str) -> None:
    signed = Objects(session, "").with_urls({"$signed": "GET key"})

    assert url_of_boto3(session) == wanted
    assert urlsplit(signed)._replace(query="").geturl() == wanted


@pytest.mark.parametrize(
    ("variable", "region", "bucket", "end", "host"),
    [
        ("AWS_USE_FIPS_ENDPOINT", "us-gov-west-1", "jobs", None, "jobs.s3-fips.us-gov-west-1"),
        ("AWS_USE_FIPS_ENDPOINT", "us-gov-west-1", "my.jobs", None, "s3-fips.us-gov-west-1"),
        ("AWS_USE_DUALSTACK_ENDPOINT", "us-east-2", "jobs", None, "jobs.s3.dualstack.us-east-2"),
    ],
)
def test_endpoint_variants_of_the_sdk_are_used_for_signed_urls(
    variable: str, session: Session, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "true")
    own = Session(AwsOptions(region=session.region, bucket=session.bucket))

    signed = Objects(own, "").with_urls({"$signed": "GET key"})

    hosts = {urlsplit(url).netloc for url in (url_of_boto3(own), signed)}
    assert hosts == {f"{host}.amazonaws.com"}


@pytest.mark.parametrize(
    ("region", "bucket", "end", "wanted"),
    [("eu-central-1", "jobs", ENDPOINT, "https://jobs.s3.example.com:9000/key")],
)
def test_a_style_of_the_users_own_configuration_counts(
    session: Session, wanted: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("[default]\ns3 =\n  addressing_style = virtual\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    own = Session(AwsOptions(region=session.region, bucket=session.bucket))

    signed = Objects(own, "").with_urls({"$signed": "GET key"})

    assert url_of_boto3(own) == wanted
    assert urlsplit(signed)._replace(query="").geturl() == wanted


@pytest.mark.parametrize("region, bucket, end", [("eu-central-1", "jobs", None)])
def test_threads_share_one_client_of_a_service(session: Session) -> None:
    """Logs are read in one thread, while another asks how the run stands."""
    begin = threading.Barrier(4)

    def client(_: int) -> Any:
        begin.wait(60)
        return session.look("logs")

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(client, range(4)))

    assert len({id(one) for one in found}) == 1
