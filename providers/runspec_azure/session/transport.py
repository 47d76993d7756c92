"""The HTTP transport of the SDKs, with a time limit for whole replies (see `TimedStream`) and for asked pauses."""

from __future__ import annotations

import io
import socket
import time
from http.client import HTTPResponse
from typing import Any

from azure.core.pipeline import PipelineResponse
from azure.core.pipeline.policies import RetryPolicy
from azure.core.pipeline.transport import RequestsTransport
from requests import Session
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Retry
from urllib3.connection import HTTPConnection, HTTPSConnection

from runspec_jobs.provider import TimedStream

LONGEST_PAUSE_S = 60.0  # that an answer may ask for before another attempt


class BoundedRetries(RetryPolicy[Any, Any]):
    """A policy that waits as long as Retry-After asks for, and LONGEST_PAUSE_S at most."""

    def get_retry_after(self, response: PipelineResponse[Any, Any]) -> float | None:
        try:
            asked_s = super().get_retry_after(response)
        except (ValueError, TypeError):  # neither a number nor a date
            return None
        return None if asked_s is None else min(asked_s, LONGEST_PAUSE_S)


class TimedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        found: Any = self.fp  # a BufferedReader, as makefile("rb") gives
        self.fp = io.BufferedReader(TimedStream(found.detach(), sock, time.monotonic))


class TimedConnection(HTTPConnection):
    response_class = TimedResponse


class TimedSecureConnection(HTTPSConnection):
    response_class = TimedResponse


class TimedPool(HTTPConnectionPool):
    ConnectionCls = TimedConnection


class TimedSecurePool(HTTPSConnectionPool):
    ConnectionCls = TimedSecureConnection


POOLS = {"http": TimedPool, "https": TimedSecurePool}


class TimedAdapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, **more)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, *args: Any, **more: Any) -> Any:
        manager = super().proxy_manager_for(*args, **more)
        manager.pool_classes_by_scheme = POOLS
        return manager


def new_session() -> Session:
    """Return a session, which does not retry."""
    session = Session()
    for scheme in ("http://", "https://"):
        session.mount(
            scheme,
            TimedAdapter(max_retries=Retry(total=False, redirect=False, raise_on_status=False)),
        )
    return session


def opened(**timeouts: float) -> RequestsTransport:
    """Return a transport of its own, which does not retry: the SDKs' policies do, or nobody does."""
    return RequestsTransport(session=new_session(), session_owner=True, **timeouts)
