"""Requests for logs of pods.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import objects
from runspec_emulators.kubernetes.api.requests import Request
from runspec_emulators.kubernetes.nodes.kubelet import Kubelet
from runspec_emulators.kubernetes.nodes.logs import Log, Wanted, stamp
from runspec_emulators.kubernetes.world import Object, World, read_time

# What the kubelet says of a container that has no log: validateContainerLogStatus in pkg/kubelet/kubelet_pods.go
WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


def stream(world: World, kubelet: Kubelet, request: Request) -> Iterator[bytes] | None:
    """Return the parts of a log, or None if the pod has no node yet; raise ServiceError where there is none."""
    wanted = _wanted(request)
    with world.lock:
        pod = objects.read(world, request)
        name = container_of(request, pod)
        # Logs are on the node: the server has none of its own.
        if not pod["spec"].get("nodeName"):
            return None
        run = kubelet.runs.get(pod["metadata"]["uid"])
        if run is not None and run.silent:
            place = f"{request.namespace}/{request.name}/{name}"
            why = "dial tcp 127.0.0.1:10250: connect: no route to host"
            said = f'Get "https://127.0.0.1:10250/containerLogs/{place}": {why}'
            raise errors.refuse(500, "InternalError", f"Internal error occurred: {said}")
        if request.is_set("previous"):
            log = run.previous.get(name) if run else None
            if log is None:
                said = f'previous terminated container "{name}" in pod "{request.name}" not found'
                raise errors.bad_request(said)
        else:
            log = run.logs.get(name) if run else None
        if log is None:
            said = f'container "{name}" in pod "{request.name}" is waiting to start: {_waits(pod, name)}'
            raise errors.bad_request(said)
        return log.read(wanted)


def container_of(request: Request, pod: Object) -> str:
    """Return the name of the container that a request means."""
    spec, given = pod["spec"], request.option("container")
    names = [c["name"] for c in [*spec["containers"], *(spec.get("initContainers") or ())]]
    if not given and len(spec["containers"]) > 1:
        choose = " ".join(names)
        said = (
            f"a container name must be specified for pod {request.name}, choose one of: [{choose}]"
        )
        raise errors.bad_request(said)
    if given and given not in names:
        raise errors.bad_request(f"container {given} is not valid for pod {request.name}")
    return given or str(spec["containers"][0]["name"])


def _waits(pod: Object, name: str) -> str:
    for status in pod["status"].get("containerStatuses") or ():
        if status["name"] == name:
            reason = str(status["state"].get("waiting", {}).get("reason", "ContainerCreating"))
            return WAITING.get(reason, reason)
    return "ContainerCreating"


def _wanted(request: Request) -> Wanted:
    """Return which part of a log a request asks for."""
    since, seconds = request.option("sinceTime"), request.number("sinceSeconds")
    if since and seconds is not None:
        said = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        cause = errors.not_allowed("[]", said)
        raise errors.wrong_options("PodLogOptions", cause, request.name)
    limit, tail = request.number("limitBytes"), request.number("tailLines")
    for name, value, least in (
        ("limitBytes", limit, 1),
        ("tailLines", tail, 0),
        ("sinceSeconds", seconds, 1),
    ):
        if value is not None and value < least:
            why = "must be greater than 0" if least else "must be greater than or equal to 0"
            cause = errors.wrong(name, value, why)
            raise errors.wrong_options("PodLogOptions", cause, request.name)
    begin = b""
    if seconds is not None:
        begin = stamp(time.time_ns() - seconds * 10**9)
    elif since:
        try:
            moment = read_time(since).astimezone(datetime.UTC)
        except ValueError as exc:
            raise errors.bad_request(f'parsing time "{since}": cannot parse') from exc
        # The server passes it on in whole seconds: https://github.com/kubernetes/kubernetes/issues/92389
        begin = moment.strftime("%Y-%m-%dT%H:%M:%S").encode()
    return Wanted(request.is_set("timestamps"), begin, tail, limit, request.is_set("follow"))


__all__ = ["Log", "container_of", "stream"]
