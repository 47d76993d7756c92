"""Watches: changes as lines of JSON, with bookmarks.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import listing
from runspec_emulators.kubernetes.api.requests import Request
from runspec_emulators.kubernetes.world import Change, Object, World

TICK_S = 0.2  # how often a watch without changes looks whether it is over
INITIAL_END = "k8s.io/initial-events-end"


def line(kind: str, value: Object) -> bytes:
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


def stream(world: World, request: Request) -> Iterator[bytes]:
    """Check a watch, and return its lines; raise ServiceError if it is wrong."""
    version = listing.check_version(world, request)
    limit = request.number("timeoutSeconds") or world.settings.watch_s
    return Watch(world, request, version, limit).lines()


class Watch:
    """One watch."""

    def __init__(self, world: World, request: Request, version: int, limit_s: float) -> None:
        self._world, self._request, self._version = world, request, version
        self._fits = listing.test_of(request)
        self._end = time.monotonic() + limit_s if limit_s else float("inf")
        self._bookmarks = request.is_set("allowWatchBookmarks")
        self._sent = time.monotonic()

    def lines(self) -> Iterator[bytes]:
        with self._world.lock:
            first = list(self._begin())
        yield from first
        while True:
            with self._world.lock:
                fresh = self._wait()
            if fresh is None:
                break
            yield from fresh
        # So that the next watch begins where this one ended, and repeats nothing.
        if self._bookmarks and not self._world.closed:
            yield self._bookmark()

    def _begin(self) -> Iterator[bytes]:
        """Yield the objects that are there, where no version is given."""
        initial = self._request.is_set("sendInitialEvents")
        # Without a version, or with 0, a watch begins with synthetic ADDED events:
        # https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-watch
        if self._version and not initial:
            return
        for value in listing.chosen(self._world, self._request):
            yield line("ADDED", value)
        self._version = self._world.version
        if initial:
            yield self._bookmark({INITIAL_END: "true"})

    def _wait(self) -> list[bytes] | None:
        """Wait for changes, with the lock held; return their lines, or None when the watch is over."""
        world = self._world
        while not world.closed and time.monotonic() < self._end:
            if self._version < world.forgotten:
                message = f"too old resource version: {self._version} ({world.forgotten})"
                self._end = 0
                return [line("ERROR", errors.status_of(errors.gone(message)))]
            seen, self._version = self._version, world.version
            fresh = []
            for change in reversed(world.changes):
                if change.version <= seen:
                    break
                fresh.append(change)
            if lines := [text for change in reversed(fresh) for text in self._seen(change)]:
                return lines
            if self._bookmarks and time.monotonic() > self._sent + world.settings.bookmark_s:
                self._sent = time.monotonic()
                return [self._bookmark()]
            world.changed.wait(min(TICK_S, max(self._end - time.monotonic(), 0)))
        return None

    def _seen(self, change: Change) -> Iterator[bytes]:
        """Yield what the watch shows of a change: an object comes or goes also as the selectors choose it or not."""
        request = self._request
        if change.resource != request.resource.names.resource:
            return
        meta = change.value["metadata"]
        if request.namespace and meta.get("namespace") != request.namespace:
            return
        if request.name and meta["name"] != request.name:
            return
        before = change.before is not None and self._fits(change.before)
        after = change.kind != "DELETED" and self._fits(change.value)
        # A client sees only what its selectors choose, so an object that they choose no longer is DELETED
        # for it: convertToWatchEvent in pkg/storage/cacher/cache_watcher.go of k8s.io/apiserver.
        if after:
            yield line("MODIFIED" if before else "ADDED", change.value)
        elif before:
            yield line("DELETED", change.value)

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        meta: dict[str, Any] = {"resourceVersion": str(self._version), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        resource = self._request.resource
        value = {"kind": resource.names.kind, "apiVersion": resource.api_version, "metadata": meta}
        return line("BOOKMARK", value)
