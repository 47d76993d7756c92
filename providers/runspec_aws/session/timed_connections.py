"""Connections of the SDK with a time limit for whole replies; see `TimedStream`."""

from __future__ import annotations

import io
import socket
import time
from http.client import HTTPResponse
from typing import Any

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)

from runspec_jobs.provider import TimedStream


class TimedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        found: Any = self.fp  # a BufferedReader, as makefile("rb") gives
        self.fp = io.BufferedReader(TimedStream(found.detach(), sock, time.monotonic))


class TimedConnection(AWSHTTPConnection):  # type: ignore[misc]  # the SDK has no types
    response_class = TimedResponse


class TimedSecureConnection(AWSHTTPSConnection):  # type: ignore[misc]  # the SDK has no types
    response_class = TimedResponse


class TimedPool(AWSHTTPConnectionPool):  # type: ignore[misc]  # the SDK has no types
    ConnectionCls = TimedConnection


class TimedSecurePool(AWSHTTPSConnectionPool):  # type: ignore[misc]  # the SDK has no types
    ConnectionCls = TimedSecureConnection


def use(client: Any) -> None:
    """Have *client*, which has sent nothing yet, make such connections, also through a proxy.

    The SDK has no public setting for them, so this changes the table of its HTTP session. A test shows that it is
    effective with the SDK that is installed.
    """
    session = client._endpoint.http_session  # noqa: SLF001 - see above
    session._pool_classes_by_scheme.update(http=TimedPool, https=TimedSecurePool)  # noqa: SLF001
