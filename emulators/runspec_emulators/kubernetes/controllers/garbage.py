"""Garbage collection: objects whose owners are gone, foreground deletion, and namespaces that end.

https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

from __future__ import annotations

from runspec_emulators.kubernetes.api import deletion
from runspec_emulators.kubernetes.api.deletion import FOREGROUND, ORPHAN
from runspec_emulators.kubernetes.resources import NAMESPACES, RESOURCES, Resource
from runspec_emulators.kubernetes.world import Object, World, is_terminating, key_of, owners

STORED = [r for r in RESOURCES if r.stored]


def sync(world: World) -> None:
    """Delete what is to go. The lock of the world is held."""
    uids = {v["metadata"]["uid"] for r in STORED for v in world.all(r)}
    owned: dict[str, list[tuple[Resource, Object]]] = {}
    for resource in STORED:
        for value in list(world.all(resource)):
            references = owners(value)
            for reference in references:
                owned.setdefault(reference["uid"], []).append((resource, value))
            # An object stays as long as one of its owners is there. Owners are known by uid: a new object
            # of the same name is another owner.
            if references and not any(r["uid"] in uids for r in references):
                _delete(world, resource, value)
    for resource in STORED:
        for value in list(world.all(resource)):
            if is_terminating(value):
                _settle(world, resource, value, owned.get(value["metadata"]["uid"], []))
    for namespace in list(world.all(NAMESPACES)):
        if is_terminating(namespace):
            _empty(world, namespace)


def _delete(world: World, resource: Resource, value: Object) -> None:
    kept = world.get(resource, *key_of(value))
    if kept is not None and not is_terminating(kept):
        deletion.delete(world, resource, kept)


def _settle(
    world: World, resource: Resource, owner: Object, dependents: list[tuple[Resource, Object]]
) -> None:
    """Do for an object that is to go what its finalizers ask for."""
    finalizers, uid = owner["metadata"].get("finalizers") or (), owner["metadata"]["uid"]
    if ORPHAN in finalizers:
        for kind, value in dependents:
            world.change(kind, *key_of(value), lambda changed: _disown(changed, uid))
        # Last: an owner that goes before its dependents are free of it would take them along.
        deletion.drop_finalizer(world, resource, owner, ORPHAN)
    if FOREGROUND in finalizers:
        left = [d for d in dependents if world.get(d[0], *key_of(d[1])) is not None]
        for kind, value in left:
            _delete(world, kind, value)
        # "The only dependents that block owner deletion are those with
        # ownerReference.blockOwnerDeletion=true".
        blocking = [
            kept
            for kind, value in left
            if (kept := world.get(kind, *key_of(value))) is not None
            and any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in owners(kept))
        ]
        if not blocking:
            deletion.drop_finalizer(world, resource, owner, FOREGROUND)


def _disown(value: Object, uid: str) -> None:
    kept = [r for r in owners(value) if r["uid"] != uid]
    value["metadata"]["ownerReferences"] = kept


def _empty(world: World, namespace: Object) -> None:
    """Delete all in a namespace, and the namespace when it is empty."""
    name, left = namespace["metadata"]["name"], 0
    for resource in STORED:
        if resource.namespaced:
            for value in list(world.all(resource, name)):
                _delete(world, resource, value)
                left += world.get(resource, *key_of(value)) is not None
    # The namespace goes last, so that no object is ever in a namespace that is not there:
    # https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/
    if not left and not namespace["metadata"].get("finalizers"):
        world.remove(NAMESPACES, namespace)
