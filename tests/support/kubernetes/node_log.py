"""The part of a container's log that a request to a node wants."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping

from runspec_emulators.kubernetes.nodes.logs import Wanted, stamp


def read_options(query: Mapping[str, str]) -> Wanted:
    """Return what the query of the kubelet's API asks for, as the API server passes it on.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
    """
    since = b""
    if text := query.get("sinceTime"):
        moment = datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
        since = moment.strftime("%Y-%m-%dT%H:%M:%S").encode()
    if "sinceSeconds" in query:
        since = stamp(time.time_ns() - int(query["sinceSeconds"]) * 10**9)
    tail, limit = (
        int(query[name]) if name in query else None for name in ("tailLines", "limitBytes")
    )
    follow, timestamps = (query.get(name) == "true" for name in ("follow", "timestamps"))
    return Wanted(timestamps, since, tail, limit, follow)
