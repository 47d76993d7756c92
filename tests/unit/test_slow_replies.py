"""A server that sends a byte now and then holds no client for ever, whatever part of a reply it drips."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.core.pipeline.transport import RequestsTransport

from runspec_aws import price_list as aws_prices
from runspec_aws.errors import translated as aws
from runspec_aws.options import AwsOptions
from runspec_aws.session import ONCE, Session as AwsSession
from runspec_azure.batch.options import BatchOptions
from runspec_azure.errors import translated as azure
from runspec_azure.resources import price_list as azure_prices
from runspec_azure.session import clouds, transport
from runspec_azure.session.clients import Session as AzureSession
from runspec_jobs.provider import NoAnswer, RemoteError
from runspec_jobs.provider.streams import object_streams

pytestmark = pytest.mark.process
BODY = b'{"jobs": [], "state": "active"}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
    BODY
)
DRIP = {"head": (b"", HEAD + BODY), "body": (HEAD, BODY), "nothing": (HEAD + BODY, b"")}


@contextmanager
def server(at_once: bytes, dripped: bytes) -> Iterator[str]:
    """Yield the URL of a server that answers each request with *at_once*, and then a byte every 50 ms of *dripped*."""

    def answer(link: socket.socket) -> None:
        with link:
            link.recv(65536)
            link.sendall(at_once)
            for byte in dripped:
                time.sleep(0.05)
                try:
                    link.sendall(bytes([byte]))
                except OSError:
                    return

    def accept() -> None:
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(link,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def at_aws(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in {
        "ACCESS_KEY_ID": "a",
        "SECRET_ACCESS_KEY": "b",
        "ENDPOINT_URL": url,
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    session = AwsSession(AwsOptions(region="eu-west-1", bucket="jobs"))
    with aws("describe_jobs"):
        return session.make("batch").describe_jobs(jobs=["a"])


def at_azure(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("KEY", "c2VjcmV0IGtleQ==")
    own: Any = {"batch_url": url, "batch_account": "a", "batch_key": "env:KEY"}
    session = AzureSession(BatchOptions(**own, storage_account="abc", container="jobs"))
    with azure("Job_Add"):
        return session.make("Job_Add", {}, {"id": "a"})


@pytest.mark.parametrize("ask", [at_aws, at_azure])
@pytest.mark.parametrize("part", ["head", "body"])
def test_a_reply_that_drips_ends_as_no_answer(
    part: str, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_streams, "WHOLE_S", 0.4)

    with server(*DRIP[part]) as url, pytest.raises(NoAnswer):
        ask(url, monkeypatch)


def prices_of_aws(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "ACCESS_KEY_ID": "a",
        "SECRET_ACCESS_KEY": "b",
        "ENDPOINT_URL": url,
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(aws_prices, "PATIENT", ONCE)
    aws_prices.read(AwsOptions(region="eu-west-1"))


def prices_of_azure(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    azure_prices.read("westeurope", lambda _: azure_prices.get(url))


@pytest.mark.parametrize("read", [prices_of_aws, prices_of_azure])
@pytest.mark.parametrize("part", ["head", "body"])
def test_a_price_list_that_drips_cannot_be_read(
    part: str, read: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_streams, "WHOLE_S", 0.4)

    with server(*DRIP[part]) as url, pytest.raises((NoAnswer, RemoteError)) as failure:
        read(url, monkeypatch)

    assert "KeyError" not in str(failure.value)  # of the reply, which has no prices


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_login_at_azure_that_drips_ends_too(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_streams, "WHOLE_S", 0.1)
    monkeypatch.setattr(RequestsTransport, "sleep", lambda self, duration: None)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    monkeypatch.setenv("IDENTITY_HEADER", "x")

    with server(*DRIP[part]) as url:
        monkeypatch.setenv("IDENTITY_ENDPOINT", url)
        credential = transport.find_login(clouds.PUBLIC)
        with pytest.raises(ClientAuthenticationError, match="timed out"):
            credential.get_token(clouds.STORAGE_SCOPE)


@pytest.mark.parametrize("ask", [at_aws, at_azure])
def test_a_reply_that_comes_at_once_is_read(
    ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with server(*DRIP["nothing"]) as url:
        assert ask(url, monkeypatch)["jobs"] == []


class Source:
    """What a socket and its file are for a reply: each read takes *pause_s* and gives *size* bytes."""

    def __init__(self, pause_s: float, size: int) -> None:
        self.now_s, self.pause_s, self.size, self.timeouts = 0.0, pause_s, size, [60.0]

    def clock(self) -> float:
        return self.now_s

    def readinto(self, buffer: Any) -> int:
        self.now_s += self.pause_s
        return self.size

    def gettimeout(self) -> float:
        return 60.0

    def settimeout(self, seconds: float) -> None:
        self.timeouts.append(seconds)

    def close(self) -> None: ...


def test_a_long_reply_may_take_as_long_as_it_comes_with_a_kilobyte_a_second() -> None:
    source: Any = Source(1.0, 1024)
    stream = object_streams.TimedStream(source, source, source.clock)

    for _ in range(3600):
        stream.readinto(bytearray(1024))


def test_the_time_that_a_reader_takes_does_not_count() -> None:
    source: Any = Source(0.1, 10)
    stream = object_streams.TimedStream(source, source, source.clock)

    for _ in range(100):
        source.now_s += 3600
        stream.readinto(bytearray(10))


def test_a_byte_a_second_ends_after_a_minute() -> None:
    source: Any = Source(1.0, 1)
    stream = object_streams.TimedStream(source, source, source.clock)

    def read() -> None:
        for _ in range(100):
            stream.readinto(bytearray(1))

    with pytest.raises(TimeoutError):
        read()

    assert 60 <= source.now_s < 63
    assert max(source.timeouts) == 60
