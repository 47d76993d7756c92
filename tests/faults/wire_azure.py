"""What the fault proxy must know of Azure: how its services word errors, and names for requests.

Azure Batch, Batch AI, the Resource Manager and azure-identity stand on azure-core; the Blob service is also reached by
obstore. Each attempt of theirs is a request.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from requests.adapters import HTTPAdapter

from runspec_azure import store
from runspec_azure.batch import job, timing
from runspec_azure.batch.client import AzureClient
from runspec_batchai import client as batchai, timing as batchai_times
from runspec_jobs.load import registry
from tests.faults.boundaries import Boundaries
from tests.support.fault_proxy import (
    HANG_S,
    CountedRequests,
    Provider,
    Service,
    hurry_obstore,
    install,
)

SERVICES: Mapping[str, Service] = {
    # https://learn.microsoft.com/rest/api/batchservice/batch-status-and-error-codes
    "batch": Service(
        {
            "throttled": (429, "TooManyRequests"),
            "error": (500, "InternalError"),
            "expired": (403, "AuthenticationFailed"),
        },
        '{"code": "CODE", "message": {"lang": "en-us", "value": "no"}}',
        retry_after=True,
    ),
    # https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling
    "arm": Service(
        {
            "throttled": (429, "TooManyRequests"),
            "error": (500, "InternalServerError"),
            "expired": (401, "ExpiredAuthenticationToken"),
        },
        '{"error": {"code": "CODE", "message": "no"}}',
        retry_after=True,
    ),
    # https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes
    "blob": Service(
        {
            "throttled": (503, "ServerBusy"),
            "error": (500, "InternalError"),
            "expired": (403, "AuthenticationFailed"),
        },
        "<?xml version='1.0'?><Error><Code>CODE</Code><Message>no</Message></Error>",
        "x-ms-error-code",
        retry_after=True,
    ),
    # https://learn.microsoft.com/azure/key-vault/general/rest-error-codes
    "vault": Service(
        {
            "throttled": (429, "Throttled"),
            "error": (500, "InternalServerError"),
            "expired": (401, "Unauthorized"),
        },
        '{"error": {"code": "CODE", "message": "no"}}',
    ),
}
# By the first part of a path. Files that Batch AI's jobs print into, and tokens, are the emulator's own.
FIRST = {
    "rehearsal": "blob",
    "_storage": "blob",
    "subscriptions": "arm",
    "_identity": "arm",
    "msi": "arm",
    "secrets": "vault",
    "deletedsecrets": "vault",
}


def service_name(url: str) -> str:
    """Return the name of the service that *url* is of, by its path.

    >>> [service_name(f"http://127.0.0.1:9{path}") for path in ("/rehearsal/c/k", "/subscriptions/x", "/jobs")]
    ['blob', 'arm', 'batch']
    """
    return FIRST.get(urlsplit(url).path.split("/")[1], "batch")


def name(method: str, url: str) -> str:
    """Return a name for a request that is the same in every run.

    >>> name("PUT", "http://127.0.0.1:9/rehearsal/faults/w/runs/faults-a1b2c3/record.json")
    'PUT blob runs/*/record.json'
    >>> name("GET", "http://127.0.0.1:9/rehearsal/faults?comp=list&prefix=w%2Fruns%2Ffaults-a1b2c3%2Flogs")
    'GET blob list runs/*/logs'
    >>> name("POST", "http://127.0.0.1:9/jobs/faults-a1b2c3/addtaskcollection?api-version=1")
    'POST batch /jobs/*/addtaskcollection'
    >>> name("GET", "http://127.0.0.1:9/subscriptions/0/resourceGroups/runspec/providers/Microsoft.BatchAI/workspaces/w")
    'GET arm /workspaces/w'
    >>> name("PUT", "http://127.0.0.1:9/secrets/runspec-faults-a1b2c3-TOKEN?api-version=7.4")
    'PUT vault /secrets/runspec-*-TOKEN'
    """
    split, of = urlsplit(url), service_name(url)
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


AZURE = Provider(lambda url: SERVICES[service_name(url)], name)


def warm() -> None:
    """Have all that the providers import in memory before anything is forked."""
    for provider in ("azure-batch", "azure-batch-ai"):
        registry.load(provider)
    for late in ("azure.identity", "azure.storage.blob"):
        importlib.import_module(late)


def installed(steps: Boundaries, at: int | None, fault: str | None) -> None:
    """Count the requests of this process; number *at*, from 1, goes wrong as *fault* says."""
    batchai_times.DEFAULT = batchai_times.Timing(poll_s=0.2, fresh_s=0.2)
    job.AT_ONCE = 2  # so that three tasks are two collections
    steps.watch(AzureClient)
    steps.watch(batchai.BatchAiClient)
    count(steps, at, fault)


def count(steps: Boundaries, at: int | None, fault: str | None) -> None:
    timing.DEFAULT = timing.Timing(poll_s=0.2, fresh_s=0.2, slow_s=0.2)
    if fault == "hang after":
        _hurry()
    install(AZURE, CountedRequests(steps, at, fault))


def _hurry() -> None:
    """Have everybody give up waiting for an answer after HANG_S."""
    patched: Any = HTTPAdapter
    real = patched.send

    def send(adapter: Any, request: Any, *more: Any, **how: Any) -> Any:
        return real(adapter, request, *more, **{**how, "timeout": (HANG_S, HANG_S)})

    patched.send = send
    hurry_obstore(store, "AzureStore")
