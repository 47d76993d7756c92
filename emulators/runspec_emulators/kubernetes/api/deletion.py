"""Deletion: preconditions, grace periods of pods, finalizers, and what becomes of dependents.

https://kubernetes.io/docs/concepts/architecture/garbage-collection/,
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
"""

from __future__ import annotations

import datetime
from typing import Any

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.resources import JOBS, NAMESPACES, PODS, Resource
from runspec_emulators.kubernetes.world import Object, World, copied, has_ended, is_terminating, now

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
FINALIZERS = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
POLICIES = ("Foreground", "Background", "Orphan")


def delete(
    world: World, resource: Resource, value: Object, options: dict[str, Any] | None = None
) -> tuple[Object, bool]:
    """Begin to delete an object; return its last version, and whether it is gone."""
    options = options or {}
    _check(resource, value, options)
    value = copied(value)
    meta = value["metadata"]
    finalizer = FINALIZERS.get(options.get("propagationPolicy", ""))
    if finalizer and finalizer not in meta.setdefault("finalizers", []):
        meta["finalizers"].append(finalizer)
    grace = _grace(resource, value, options)
    if resource is NAMESPACES:
        value.setdefault("status", {})["phase"] = "Terminating"
    elif not meta.get("finalizers") and not grace:
        return world.remove(resource, _marked(value, 0)), True
    # A second deletion can only shorten the time: BeforeDelete in
    # k8s.io/apiserver/pkg/registry/rest/delete.go.
    if is_terminating(value) and meta.get("deletionGracePeriodSeconds", 0) <= grace:
        return world.put(resource, value), False
    return world.put(resource, _marked(value, grace)), False


def check_options(options: dict[str, Any]) -> None:
    """Raise ServiceError if it is not clear what becomes of dependents."""
    policy = options.get("propagationPolicy")
    if policy is not None and "orphanDependents" in options:
        why = "orphanDependents and deletionPropagation cannot be both set"
        cause = errors.wrong("propagationPolicy", policy, why)
    elif policy is not None and policy not in POLICIES:
        cause = errors.unsupported("propagationPolicy", policy, [*POLICIES, "nil"])
    else:
        return
    raise errors.wrong_options("DeleteOptions", cause)


def default_policy(resource: Resource, options: dict[str, Any]) -> str | None:
    """Return the policy of a deletion that names none: jobs of batch/v1 leave their pods.

    See DefaultGarbageCollectionPolicy in pkg/registry/batch/job/strategy.go; a real server does so.
    """
    orphan = options.get("orphanDependents", resource is JOBS)
    return "Orphan" if orphan else None


def _marked(value: Object, grace: int) -> Object:
    """Return an object that is to be deleted after *grace* seconds."""
    meta = value["metadata"]
    when = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=grace)
    # Controllers see by the generation that they have to act otherwise: BeforeDelete.
    if "deletionTimestamp" not in meta:
        meta["generation"] = meta.get("generation", 0) + 1
    meta["deletionTimestamp"] = when.strftime("%Y-%m-%dT%H:%M:%SZ") if grace else now()
    meta["deletionGracePeriodSeconds"] = grace
    return value


def _grace(resource: Resource, value: Object, options: dict[str, Any]) -> int:
    """Return the seconds that a pod has to end: none, if it runs nowhere or has ended."""
    # Nobody would use the time: CheckGracefulDelete in pkg/registry/core/pod/strategy.go.
    if resource is not PODS or has_ended(value) or not value["spec"].get("nodeName"):
        return 0
    given = options.get("gracePeriodSeconds")
    grace: int = value["spec"]["terminationGracePeriodSeconds"] if given is None else given
    before = value["metadata"].get("deletionGracePeriodSeconds")
    return grace if before is None else min(before, grace)


def _check(resource: Resource, value: Object, options: dict[str, Any]) -> None:
    names, meta = resource.names, value["metadata"]
    wanted = options.get("preconditions") or {}
    uid = wanted.get("uid")
    if uid is not None and uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(names, meta["name"], why, by_kind=True)
    version = wanted.get("resourceVersion")
    if version is not None and version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({meta['resourceVersion']}). The object might have been modified"
        )
        raise errors.conflict(names, meta["name"], why, by_kind=True)


def settle(world: World, resource: Resource, value: Object) -> bool:
    """Remove an object that is to be deleted and that nothing holds any more; return whether it was."""
    meta = value["metadata"]
    # A pod with time left belongs to its kubelet, which sets the time to 0 when it has ended.
    held = meta.get("finalizers") or (resource is PODS and meta.get("deletionGracePeriodSeconds"))
    if not is_terminating(value) or held or resource is NAMESPACES:
        return False
    world.remove(resource, value)
    return True


def drop_finalizer(world: World, resource: Resource, value: Object, finalizer: str) -> None:
    """Take a finalizer away from an object, which is removed if it was the last that held it."""
    meta = value["metadata"]

    def drop(changed: Object) -> None:
        kept = [f for f in changed["metadata"].get("finalizers") or () if f != finalizer]
        changed["metadata"]["finalizers"] = kept
        if not kept:
            del changed["metadata"]["finalizers"]

    if finalizer in (meta.get("finalizers") or ()):
        changed = world.change(resource, meta.get("namespace", ""), meta["name"], drop)
        if changed is not None:
            settle(world, resource, changed)
