"""The wire of a command line that talks to AWS: every request counted, and one of them going wrong.

A request is a boundary before it is sent and after its answer has come. What can go wrong is what botocore's own HTTP
layer gives or raises: https://botocore.amazonaws.com/v1/documentation/api/latest/topics/events.html
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import boto3
import obstore
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from botocore.httpsession import URLLib3Session
from botocore.loaders import JSONFileLoader
from obstore.exceptions import GenericError

from runspec_aws import times
from runspec_aws.client import AwsClient
from runspec_jobs.load import registry
from tests.faults.boundaries import Boundaries

Send = Callable[[], Any]
SETTLE_S = 3.0  # longer than any list lags in these tests


def warm() -> None:
    """Have botocore's descriptions of services in memory before anything is forked."""
    registry.load("aws-batch")
    JSONFileLoader.load_file = functools.cache(JSONFileLoader.load_file)
    for service in ("batch", "s3", "logs"):
        boto3.client(
            service, region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x"
        )


class Cut:
    """The raw side of an answer that was made up or cut off."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def stream(self, **_: Any) -> Any:
        yield self.body

    def read(self, *_: Any) -> bytes:
        body, self.body = self.body, b""
        return body


def answer(url: str, status: int, code: str) -> AWSResponse:
    """Give an error in every way that a service may put it: JSON with a header, or XML."""
    path = urlsplit(url).path
    xml = path != "/" and not path.startswith("/v1/")  # Logs and Batch are the others
    body = (
        f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"
        if xml
        else json.dumps({"__type": code, "message": "no"})
    )
    headers = {
        "x-amzn-errortype": code,
        "content-type": "application/xml" if xml else "application/json",
    }
    return AWSResponse(url, status, headers, Cut(body.encode()))


def throttled(url: str, send: Send) -> Any:
    return answer(url, 429, "TooManyRequestsException")


def error_before(url: str, send: Send) -> Any:
    return answer(url, 500, "InternalError")


def error_after(url: str, send: Send) -> Any:
    send()
    return answer(url, 500, "InternalError")


def reset_before(url: str, send: Send) -> Any:
    raise ConnectionClosedError(endpoint_url=url)


def reset_after(url: str, send: Send) -> Any:
    send()
    raise ConnectionClosedError(endpoint_url=url)


def hang_after(url: str, send: Send) -> Any:
    send()
    raise ReadTimeoutError(endpoint_url=url)


def truncated(url: str, send: Send) -> Any:
    real = send()
    half = real.content[: len(real.content) // 2]
    return AWSResponse(url, real.status_code, real.headers, Cut(half))


def expired(url: str, send: Send) -> Any:
    return answer(url, 403, "ExpiredTokenException")


FAULTS: Mapping[str, Callable[[str, Send], Any]] = {
    "throttled": throttled,
    "error before": error_before,
    "error after": error_after,
    "reset before": reset_before,
    "reset after": reset_after,
    "hang after": hang_after,
    "truncated": truncated,
    "expired": expired,
}


class Wire:
    """Counts the requests of this process; number *at*, from 1, goes wrong as *fault* says."""

    def __init__(self, steps: Boundaries, at: int | None, fault: str | None) -> None:
        self.steps, self.at, self.fault = steps, at, fault
        self.count = 0

    def install(self) -> None:
        times.SETTLE_S, times.QUIET_S = SETTLE_S, 0.2
        AwsClient.poll_s = 0.2
        self.steps.watch(AwsClient)
        real_send, real_put = URLLib3Session.send, obstore.put
        wire = self

        def send(session: Any, request: Any) -> Any:
            what = named(request.method, request.url)
            return wire.sent(what, request.url, lambda: real_send(session, request))

        def put(store: Any, path: str, *more: Any, **how: Any) -> Any:
            return wire.sent("PUT object", "bulk", lambda: real_put(store, path, *more, **how))

        URLLib3Session.send, obstore.put = send, put

    def sent(self, what: str, url: str, send: Send) -> Any:
        self.steps.step("send", what)
        self.count += 1
        if self.fault is not None and self.count == self.at:
            found = self._struck(url, send)
        else:
            found = send()
        self.steps.step("sent", what)
        return found

    def _struck(self, url: str, send: Send) -> Any:
        assert self.fault is not None
        if url != "bulk":
            return FAULTS[self.fault](url, send)
        if self.fault.endswith("after"):
            send()
        raise GenericError(self.fault)


def installed(steps: Boundaries, **how: Any) -> None:
    Wire(steps, **how).install()


def named(method: str, url: str) -> str:
    """Give a request a name that is the same in every run.

    >>> named("PUT", "http://127.0.0.1:99/jobs/w/runs/faults-a1b2c3/record.json")
    'PUT /jobs/*/record.json'
    >>> named("POST", "http://127.0.0.1:99/v1/submitjob")
    'POST /v1/submitjob'
    """
    path = re.sub(r"^https?://[^/]+", "", url).partition("?")[0]
    first, _, rest = path.lstrip("/").partition("/")
    if first == "v1" or not rest:
        return f"{method} {path}"
    return f"{method} /{first}/*/{rest.rpartition('/')[2]}"
