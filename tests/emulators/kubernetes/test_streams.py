"""Watches, forwarded ports and injected faults, as the official client meets them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import urllib3
from kubernetes.client import ApiException
from kubernetes.stream import portforward

from tests.emulators.kubernetes.stand import Stand, new_watch, until

pytestmark = pytest.mark.process
SERVES = (
    "import os, socket\n"
    "s = socket.create_server((os.environ['IP'], 8123))\n"
    "print('listens', flush=True)\n"
    "c, _ = s.accept()\n"
    "c.sendall(c.recv(100).upper())\n"
)


def put(stand: Stand, name: str) -> Any:
    body = {"metadata": {"name": name, "labels": {"of": "test"}}}
    return stand.core.create_namespaced_config_map("default", body)


def test_a_watch_shows_what_is_there_and_what_changes(stand: Stand) -> None:
    put(stand, "a")
    link = new_watch()
    seen = []
    for event in link.stream(
        stand.core.list_namespaced_config_map, "default", label_selector="of=test"
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 1:
            stand.core.patch_namespaced_config_map("a", "default", {"data": {"x": "1"}})
            put(stand, "b")
            stand.core.delete_namespaced_config_map("a", "default")
        if len(seen) == 4:
            link.stop()

    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_a_watch_ends_and_goes_on_where_a_bookmark_says(make: Callable[..., Stand]) -> None:
    stand = make(bookmark_s=0.1)
    options = {"timeout_seconds": 1, "allow_watch_bookmarks": True}
    link, version = new_watch(), ""
    for event in link.stream(stand.core.list_namespaced_config_map, "default", **options):
        assert event["type"] == "BOOKMARK"
        version = event["raw_object"]["metadata"]["resourceVersion"]
    put(stand, "a")

    later = link.stream(
        stand.core.list_namespaced_config_map,
        "default",
        resource_version=version,
        timeout_seconds=1,
    )

    assert [(e["type"], e["object"].metadata.name) for e in later] == [("ADDED", "a")]


def test_a_watch_from_what_is_forgotten_is_gone(stand: Stand) -> None:
    version = put(stand, "a").metadata.resource_version
    stand.tell("POST", "forget")

    with pytest.raises(ApiException) as refused:
        list(
            new_watch().stream(
                stand.core.list_namespaced_config_map, "default", resource_version=version
            )
        )

    assert refused.value.status == 410


def test_a_port_of_a_pod_is_forwarded(stand: Stand) -> None:
    address = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    stand.run("", container={"command": ["python3", "-c", SERVES], "env": [address]})
    until(lambda: stand.pod()["status"]["phase"] == "Running" and "listens" in stand.log())

    link: Any = portforward(
        stand.core.connect_get_namespaced_pod_portforward, "p", "default", ports="8123"
    )
    socket = link.socket(8123)
    socket.setblocking(True)
    socket.sendall(b"word")

    assert socket.recv(100) == b"WORD"
    socket.close()


def test_a_lost_reply_leaves_what_was_done(stand: Stand) -> None:
    stand.tell("PUT", "faults", [{"kind": "reset-after", "operation": "create configmaps"}])

    with pytest.raises((urllib3.exceptions.HTTPError, ApiException)):
        put(stand, "a")
    with pytest.raises(ApiException) as refused:
        put(stand, "a")

    assert refused.value.status == 409
    outcomes = [c["outcome"] for c in stand.tell("GET", "calls")]
    assert outcomes == ["reset-after", "AlreadyExists"]


def test_a_fault_says_what_the_service_says(stand: Stand) -> None:
    stand.tell("PUT", "faults", [{"kind": "throttle"}, {"kind": "busy", "nth": 2}])

    with pytest.raises(ApiException) as refused:  # the client heeds Retry-After after the first
        stand.core.list_namespaced_pod("default")

    assert (refused.value.status, refused.value.reason) == (503, "Service Unavailable")
    outcomes = [c["outcome"] for c in stand.tell("GET", "calls")]
    assert outcomes == ["throttle", "busy"]


def test_a_log_that_is_cut_is_an_error(stand: Stand) -> None:
    stand.run("for n in 1 2 3; do echo line $n; done")
    stand.ended()
    stand.tell("PUT", "faults", [{"kind": "truncated", "operation": "get pods/log"}])

    with pytest.raises(urllib3.exceptions.HTTPError):
        stand.log()
    assert stand.log() == "line 1\nline 2\nline 3\n"


def test_a_follower_gets_lines_as_they_come(stand: Stand) -> None:
    stand.run("echo first; sleep 1; echo second")
    seen: list[str] = []
    link = new_watch()

    def follow() -> None:
        seen.extend(link.stream(stand.core.read_namespaced_pod_log, "p", "default"))

    until(lambda: stand.pod()["status"]["phase"] in ("Running", "Failed"))
    reader = threading.Thread(target=follow)
    reader.start()
    stand.ended()
    reader.join(30)

    assert seen[0] == "first"
    assert seen[-1] == "second"
