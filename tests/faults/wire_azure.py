"""The wire of a command line that talks to Azure: every request counted, and one of them going wrong.

All libraries go through one proxy in the process itself (proxy.py): azure-core and what stands on it (Azure Batch,
Batch AI, the Resource Manager, azure-identity) and obstore, which is not Python. Each attempt of theirs is a request.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from obstore.store import AzureStore
from requests.adapters import HTTPAdapter

from runspec_azure import blobs
from runspec_azure.batch import job, times
from runspec_azure.batch.client import AzureClient
from runspec_azure.batchai import client as batchai, times as batchai_times
from runspec_jobs.load import registry
from tests.faults.boundaries import Boundaries
from tests.faults.proxy import Answer, Proxy, Reset, Send, Silence

HANG_S = 1.0  # until somebody who waits for an answer has had enough
XML = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"


# The files that Batch AI's jobs print into, and tokens, are the stand-in's own.
SERVICES = {"rehearsal": "blob", "_storage": "blob", "subscriptions": "arm", "_identity": "arm"}


def service(url: str) -> str:
    """Give which service a URL is of, by its path.

    >>> [service(f"http://127.0.0.1:9{path}") for path in ("/rehearsal/c/k", "/subscriptions/x", "/jobs")]
    ['blob', 'arm', 'batch']
    """
    first = urlsplit(url).path.split("/")[1]
    return SERVICES.get(first, "batch")


# What each service says, with the status it has:
# https://learn.microsoft.com/rest/api/batchservice/batch-status-and-error-codes
# https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes
# https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling
ERRORS: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "throttled": {
        "batch": (429, "TooManyRequests"),
        "arm": (429, "TooManyRequests"),
        "blob": (503, "ServerBusy"),
    },
    "error": {
        "batch": (500, "InternalError"),
        "arm": (500, "InternalServerError"),
        "blob": (500, "InternalError"),
    },
    "expired": {
        "batch": (403, "AuthenticationFailed"),
        "arm": (401, "ExpiredAuthenticationToken"),
        "blob": (403, "AuthenticationFailed"),
    },
}


def answer(url: str, kind: str) -> Answer:
    """Give an error as the service puts it."""
    of = service(url)
    status, code = ERRORS[kind][of]
    bodies = {
        "batch": json.dumps({"code": code, "message": {"lang": "en-us", "value": "no"}}),
        "arm": json.dumps({"error": {"code": code, "message": "no"}}),
        "blob": XML.format(code=code),
    }
    headers = [("Content-Type", "application/xml" if of == "blob" else "application/json")]
    headers += [("x-ms-error-code", code)] if of == "blob" else []
    headers += [("Retry-After", "1")] if kind == "throttled" else []
    headers += [("WWW-Authenticate", 'Bearer error="invalid_token"')] if status == 401 else []
    return Answer(status, headers, bodies[of].encode())


def throttled(url: str, send: Send) -> Answer:
    return answer(url, "throttled")


def error_before(url: str, send: Send) -> Answer:
    return answer(url, "error")


def error_after(url: str, send: Send) -> Answer:
    send()
    return answer(url, "error")


def reset_before(url: str, send: Send) -> Answer:
    raise Reset


def reset_after(url: str, send: Send) -> Answer:
    send()
    raise Reset


def hang_after(url: str, send: Send) -> Answer:
    send()
    raise Silence


def truncated(url: str, send: Send) -> Answer:
    found = send()
    return found._replace(cut=len(found.body) // 2) if found.body else found


def expired(url: str, send: Send) -> Answer:
    return answer(url, "expired")


FAULTS: Mapping[str, Callable[[str, Send], Answer]] = {
    "throttled": throttled,
    "error before": error_before,
    "error after": error_after,
    "reset before": reset_before,
    "reset after": reset_after,
    "hang after": hang_after,
    "truncated": truncated,
    "expired": expired,
}


class AzureWire:
    """Counts the requests of this process; number *at*, from 1, goes wrong as *fault* says."""

    def __init__(self, steps: Boundaries, at: int | None, fault: str | None) -> None:
        self.steps, self.at, self.fault = steps, at, fault
        self.count = 0
        self.lock = threading.Lock()  # obstore sends several at once

    def install(self) -> None:
        times.POLL_S = times.FRESH_S = times.SLOW_S = 0.2
        batchai_times.POLL_S = batchai_times.FRESH_S = 0.2
        job.AT_ONCE = 2  # so that three tasks are two collections
        self.steps.watch(AzureClient)
        self.steps.watch(batchai.BatchAiClient)
        if self.fault == "hang after":
            impatient()
        os.environ["http_proxy"] = Proxy(self.passed).url

    def passed(self, method: str, url: str, send: Send) -> Answer:
        what = named(method, url)
        with self.lock:
            self.steps.step("send", what)
            self.count += 1
            struck = self.fault is not None and self.count == self.at
        found = FAULTS[self.fault or ""](url, send) if struck else send()
        with self.lock:
            self.steps.step("sent", what)
        return found


def impatient() -> None:
    """Have everybody give up waiting for an answer after HANG_S."""
    patched: Any = HTTPAdapter
    real_send, real_store = patched.send, AzureStore

    def send(adapter: Any, request: Any, *more: Any, **how: Any) -> Any:
        return real_send(adapter, request, *more, **{**how, "timeout": (HANG_S, HANG_S)})

    def store(container: str, *, client_options: Any, **how: Any) -> Any:
        options = {**client_options, "timeout": timedelta(seconds=HANG_S)}
        return real_store(container, client_options=options, **how)  # type: ignore[arg-type] # as above

    patched.send = send
    vars(blobs)["AzureStore"] = store


def installed(steps: Boundaries, **how: Any) -> None:
    AzureWire(steps, **how).install()


def warm() -> None:
    """Have all that the providers import in memory before anything is forked."""
    for name in ("azure-batch", "azure-batch-ai"):
        registry.load(name)
    for late in ("azure.identity", "azure.storage.blob"):
        importlib.import_module(late)


def named(method: str, url: str) -> str:
    """Give a request a name that is the same in every run.

    >>> named("PUT", "http://127.0.0.1:9/rehearsal/faults/w/runs/faults-a1b2c3/record.json")
    'PUT blob runs/*/record.json'
    >>> named("GET", "http://127.0.0.1:9/rehearsal/faults?comp=list&prefix=w%2Fruns%2Ffaults-a1b2c3%2Flogs")
    'GET blob list runs/*/logs'
    >>> named("POST", "http://127.0.0.1:9/jobs/faults-a1b2c3/addtaskcollection?api-version=1")
    'POST batch /jobs/*/addtaskcollection'
    >>> named("GET", "http://127.0.0.1:9/subscriptions/0/resourceGroups/runspec/providers/Microsoft.BatchAI/workspaces/w")
    'GET arm /workspaces/w'
    """
    split, of = urlsplit(url), service(url)
    path, query = split.path, parse_qs(split.query)
    if path.startswith("/_"):
        path = f"{path.split('/')[1]} {path.rpartition('/')[2]}"
    elif of == "blob":
        path = query.get("prefix", [path.partition("/")[2]])[0]
        path = path.split("/", 0 if "prefix" in query else 2)[-1].partition("/")[2]
        words = [*query.get("comp", ()), path]
        path = " ".join(word for word in words if word)
    path = re.sub(
        r"^/subscriptions/[^/]+(/resourceGroups/[^/]+/providers/Microsoft.BatchAI)?", "", path
    )
    path = re.sub(r"\bfaults-[0-9a-z]{6}(-\d{5})?\b", "*", path)
    path = re.sub(r"\brunspec-(pool-)?[0-9a-f]{12}\b", "*", path)
    return f"{method} {of} {re.sub(r'[0-9a-f]{32,}', '*', path)}"
