"""The operations of the API, by verb and subresource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import access, decoding, listing, objects, watch
from runspec_emulators.kubernetes.api.requests import Request
from runspec_emulators.kubernetes.cluster import Cluster
from runspec_emulators.kubernetes.nodes import log_requests, streams
from runspec_emulators.kubernetes.nodes.websocket import Socket

OPERATIONS: Mapping[str, Callable[[Cluster, Request], dict[str, Any]]] = {
    "get": objects.read,
    "update": objects.update,
    "patch": objects.patch,
    "delete": objects.delete,
}
"""The verbs for one object, beside create: https://kubernetes.io/docs/reference/using-api/api-concepts/#api-verbs"""


class Answer(NamedTuple):
    """A status, and a JSON value, bytes, or an iterator of bytes that come over time."""

    status: int
    value: Any
    content_type: str = "application/json"


def answer(cluster: Cluster, request: Request, user: access.User) -> Answer:
    """Do what a request asks for; raise ServiceError where the server would refuse."""
    if not request.resource.stored:
        value, _ = decoding.decode(request, request.json())
        return Answer(201, access.review(user, request, value))
    if request.verb == "watch":
        return Answer(200, watch.stream(cluster, request))
    if request.sub == "log":
        return _log(cluster, request)
    with cluster.lock:
        return _answer(cluster, request)


def _log(cluster: Cluster, request: Request) -> Answer:
    if request.verb != "get":
        raise errors.no_method()
    parts = log_requests.stream(cluster, cluster.kubelet, request)
    # "If pod has not been assigned a host, return an empty location": LogLocation in pkg/registry/core/pod/strategy.go
    return Answer(204, b"", "") if parts is None else Answer(200, parts, "text/plain")


def _answer(cluster: Cluster, request: Request) -> Answer:
    if request.sub == "eviction" and request.verb == "create":
        return Answer(201, objects.evict(cluster, request))
    if request.sub not in ("", "status") or (request.sub and request.verb == "create"):
        raise errors.no_method()
    request.check_dry()
    if request.verb == "create":
        return Answer(201, objects.create(cluster, request))
    if request.verb == "list":
        return Answer(200, listing.page(cluster, request))
    if request.verb == "deletecollection":
        chosen = listing.chosen(cluster, request)
        page = listing.page(cluster, request)
        objects.delete_all(cluster, request, chosen)
        return Answer(200, page)
    if request.verb == "get":
        listing.check_version(cluster, request)
    return Answer(200, OPERATIONS[request.verb](cluster, request))


def open_stream(
    cluster: Cluster, request: Request, upgrades: bool
) -> tuple[str, Callable[[Socket], None]]:
    """Return the protocol of a stream to a pod, and what uses it; raise ServiceError if there can be none."""
    with cluster.lock:
        pod = objects.read(cluster, request)
        if not pod["spec"].get("nodeName"):
            raise errors.bad_request(f"pod {request.name} does not have a host assigned")
        if not upgrades:
            raise errors.bad_request("Upgrade request required")
        if request.sub == "exec":
            return streams.open_exec(cluster.kubelet, request, pod)
        return streams.open_ports(cluster.kubelet, request, pod)
