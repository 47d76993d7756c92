"""The state of the cluster: objects with versions, and the changes that watches are told."""

from __future__ import annotations

import datetime
import itertools
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from runspec_emulators.frame.server import Addresses
from runspec_emulators.frame.timers import Timers
from runspec_emulators.kubernetes.resources import EVENTS, Resource
from runspec_emulators.kubernetes.settings import Settings

Object = dict[str, Any]
Key = tuple[str, str, str]
"""The resource in its long form (`jobs.batch`), the namespace and the name of an object."""


def copied(value: Any) -> Any:
    """Return a copy of a JSON value. `copy.deepcopy` takes ten times as long."""
    if isinstance(value, dict):
        return {k: copied(v) for k, v in value.items()}
    if isinstance(value, list):
        return [copied(v) for v in value]
    return value


def now() -> str:
    """Return the time as `metav1.Time` is written: seconds, UTC."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def age_s(text: str) -> float:
    """Return how many seconds ago a time was."""
    return (datetime.datetime.now(datetime.UTC) - read_time(text)).total_seconds()


class Change(NamedTuple):
    """A change of an object; *before* is what it was."""

    version: int
    kind: str
    resource: str
    value: Object
    before: Object | None


class World:
    """The state of the cluster. `lock` guards it; objects in it are never changed, only replaced."""

    def __init__(self, settings: Settings, url: str) -> None:
        self.settings, self.url = settings, url
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.timers = Timers(self.lock)
        self.addresses = Addresses()
        self.objects: dict[str, dict[tuple[str, str], Object]] = {}
        self.changes: deque[Change] = deque()
        self.forgotten = 0
        """The version of the newest change that is forgotten."""
        self.version = 1
        self.closed = False
        self.soonest = float("inf")
        """When the controllers have something to do, although nothing changes: by time.monotonic()."""
        self.ends: list[Callable[[], None]] = []
        """What ends the controllers and the pods."""
        self._numbers = itertools.count(1)
        self._events: dict[tuple[str, str, str], str] = {}
        """The names of events by the uid of an object, the reason and the message."""

    # What is there.

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self.objects.get(resource.names.resource, {}).get((namespace, name))

    def all(self, resource: Resource, namespace: str = "") -> Iterator[Object]:
        """Yield the objects of a resource by namespace and name; those of all namespaces, if none is given."""
        kept = self.objects.get(resource.names.resource, {})
        for key in sorted(kept):
            if not namespace or key[0] == namespace:
                yield kept[key]

    def owned(self, resource: Resource, uid: str, namespace: str) -> list[Object]:
        """Return the objects that the object with *uid* controls or owns."""
        return [o for o in self.all(resource, namespace) if any(r["uid"] == uid for r in owners(o))]

    # Changes.

    def put(self, resource: Resource, value: Object) -> Object:
        """Keep a new version of an object, and tell watches. An object that did not change keeps its version."""
        meta = value["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        kept = self.objects.setdefault(resource.names.resource, {})
        before = kept.get(key)
        # A write that changes nothing has no new version and no event, or controllers would wake each
        # other for ever.
        if before is not None and before == value:
            return before
        fresh: Object = copied(value)
        fresh["metadata"].setdefault("uid", self.new_uid())
        fresh["metadata"]["resourceVersion"] = self._next()
        kept[key] = fresh
        self._tell("MODIFIED" if before else "ADDED", resource, fresh, before)
        return fresh

    def remove(self, resource: Resource, value: Object) -> Object:
        """Take an object away; its last version is what watches are told."""
        meta = value["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        before = self.objects[resource.names.resource].pop(key)
        last: Object = copied(value)
        # A deletion has a version too, so that a watch can begin after it.
        last["metadata"]["resourceVersion"] = self._next()
        self._tell("DELETED", resource, last, before)
        return last

    def change(
        self, resource: Resource, namespace: str, name: str, how: Callable[[Object], None]
    ) -> Object | None:
        """Change an object, if it is still there."""
        value = self.get(resource, namespace, name)
        if value is None:
            return None
        changed: Object = copied(value)
        how(changed)
        return self.put(resource, changed)

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    def _tell(self, kind: str, resource: Resource, value: Object, before: Object | None) -> None:
        name = resource.names.resource
        self.changes.append(Change(self.version, kind, name, value, before))
        while len(self.changes) > self.settings.history:
            self.forgotten = self.changes.popleft().version
        self.changed.notify_all()

    def forget(self) -> None:
        """Forget all changes, as a server does after some minutes: older versions are Expired."""
        self.version += 1
        self.forgotten = self.version
        self.changes.clear()
        self.changed.notify_all()

    def wake_in(self, seconds: float) -> None:
        """Have the controllers look again after so many seconds, at the latest."""
        self.soonest = min(self.soonest, time.monotonic() + max(seconds, 0.001))

    def new_uid(self) -> str:
        return str(uuid.uuid4())

    def add_event(
        self, value: Object, resource: Resource, kind: str, reason: str, message: str, source: str
    ) -> None:
        """Report an event about an object; one that repeats is counted.

        https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
        """
        meta = value["metadata"]
        namespace = meta.get("namespace") or "default"
        same = (meta["uid"], reason, message)
        event = self.get(EVENTS, namespace, self._events.get(same, ""))
        if event is not None:
            count = {"count": event["count"] + 1, "lastTimestamp": now()}
            self.put(EVENTS, {**event, **count})
            return
        name = self._events[same] = f"{meta['name']}.{next(self._numbers):016x}"
        about = {
            "kind": resource.names.kind,
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": resource.api_version,
            "resourceVersion": meta["resourceVersion"],
        }
        made = {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": self.new_uid(),
                "creationTimestamp": now(),
            },
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "source": {"component": source},
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "count": 1,
            "type": kind,
            "eventTime": None,
            "reportingComponent": source,
            "reportingInstance": "",
        }
        self.put(EVENTS, made)

    def close(self) -> None:
        """End every process of every pod, and nothing happens any more."""
        with self.lock:
            self.closed = True
            self.changed.notify_all()
        for end in self.ends:
            end()
        self.timers.close()


def owners(value: Object) -> list[Object]:
    return value["metadata"].get("ownerReferences") or []


def key_of(value: Object) -> tuple[str, str]:
    """Return the namespace and the name of an object."""
    meta = value["metadata"]
    return meta.get("namespace", ""), meta["name"]


def is_terminating(value: Object) -> bool:
    return "deletionTimestamp" in value["metadata"]


def has_ended(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def phase(pod: Object) -> str:
    text: str = pod.get("status", {}).get("phase", "Pending")
    return text


def set_condition(
    status: Object, kind: str, value: str, reason: str = "", message: str = ""
) -> bool:
    """Set a condition of a status; return whether it changed. The time is kept while the value stays."""
    conditions = status.setdefault("conditions", [])
    old = next((c for c in conditions if c["type"] == kind), None)
    fresh = {"type": kind, "status": value, "lastProbeTime": now(), "lastTransitionTime": now()}
    fresh |= {k: v for k, v in (("reason", reason), ("message", message)) if v}
    if old is None:
        conditions.append(fresh)
        return True
    same = all(old.get(k) == fresh.get(k) for k in ("status", "reason", "message"))
    if same:
        return False
    if old["status"] == value:
        fresh["lastTransitionTime"] = old["lastTransitionTime"]
    conditions[conditions.index(old)] = fresh
    return True


def condition(value: Object, kind: str) -> Object | None:
    """Return a condition of an object, if its status is True."""
    for entry in value.get("status", {}).get("conditions") or []:
        if entry["type"] == kind and entry["status"] == "True":
            return dict(entry)
    return None
