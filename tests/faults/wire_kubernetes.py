"""What the fault proxy must know of Kubernetes: how the API server words errors, and names for requests."""

from __future__ import annotations

import importlib
import re
from urllib.parse import urlsplit

from runspec_jobs.load import registry
from runspec_kubernetes import timing
from runspec_kubernetes.client import StoreClient
from runspec_objects import object_store
from tests.faults.boundaries import Boundaries
from tests.faults.wire_aws import S3
from tests.support.fault_proxy import (
    HANG_S,
    CountedRequests,
    Provider,
    Service,
    install,
)

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
STATUS = (
    '{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no", '
    '"reason": "CODE"}'
)
API = Service(
    {
        "throttled": (429, "TooManyRequests"),
        "error": (500, "InternalError"),
        "expired": (401, "Unauthorized"),
    },
    STATUS,
    retry_after=True,
)
AGENT = re.compile(r"runspec-agent-[0-9a-f]{12}")


def is_api(url: str) -> bool:
    return urlsplit(url).path.startswith(("/api/", "/apis/"))


def name(method: str, url: str) -> str:
    """Return a name for a request that is the same in every run.

    >>> name("POST", "http://127.0.0.1:9/apis/batch/v1/namespaces/default/jobs?fieldValidation=Strict")
    'POST jobs'
    >>> name("GET", "http://127.0.0.1:9/api/v1/namespaces/default/pods?labelSelector=runspec%2Frun%3Dfaults-a1b2c3")
    'GET pods'
    >>> name("DELETE", "http://127.0.0.1:9/apis/batch/v1/namespaces/default/jobs/faults-a1b2c3")
    'DELETE jobs/*'
    >>> name("PUT", "http://127.0.0.1:9/rehearsal/w/runs/faults-a1b2c3/record.json")
    'PUT s3 runs/*/record.json'
    """
    path = urlsplit(url).path
    path = re.sub(r"\bfaults-[0-9a-z]{6}(-\d+-[0-9a-z]{5})?\b", "*", path)
    if is_api(url):
        return f"{method} {AGENT.sub('AGENT', path.partition('/namespaces/')[2].partition('/')[2])}"
    key = path.split("/", 3)[-1]
    return f"{method} s3 {re.sub(r'[0-9a-f]{32,}', '*', key)}"


KUBERNETES = Provider(lambda url: API if is_api(url) else S3, name)


def warm() -> None:
    """Have all that the provider imports in memory before anything is forked."""
    registry.load("kubernetes")
    for late in ("kubernetes.client", "kubernetes.config", "obstore.store"):
        importlib.import_module(late)


def installed(steps: Boundaries, at: int | None, fault: str | None) -> None:
    """Count the requests of this process; number *at*, from 1, goes wrong as *fault* says."""
    answer_s = HANG_S if fault == "hang after" else timing.DEFAULT.answer_s
    timing.DEFAULT = timing.Timing(poll_s=0.2, fresh_s=0.2, answer_s=answer_s)
    steps.watch(StoreClient)
    if fault == "hang after":
        object_store.TIMEOUT_S = HANG_S
    install(KUBERNETES, CountedRequests(steps, at, fault))
