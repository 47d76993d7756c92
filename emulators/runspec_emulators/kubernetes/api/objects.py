"""Objects: they are created, read, replaced, patched and deleted.

https://kubernetes.io/docs/reference/using-api/api-concepts/,
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import (
    admission,
    decoding,
    defaults,
    deletion,
    job_rules,
    names,
    patches,
    pod_rules,
    schema,
)
from runspec_emulators.kubernetes.api.requests import Request
from runspec_emulators.kubernetes.errors import Cause
from runspec_emulators.kubernetes.resources import (
    ACCOUNTS,
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    PODS,
    SECRETS,
    Resource,
)
from runspec_emulators.kubernetes.world import (
    Object,
    World,
    copied,
    is_terminating,
    now,
    set_condition,
)

JSON = "application/json"
MOST_DATA = 1024 * 1024  # bytes of a ConfigMap or a Secret
MOST_BYTES = 1_500_000
"""--max-request-bytes of etcd: https://etcd.io/docs/v3.6/dev-guide/limit/"""
SERVER_SETS = (
    "uid creationTimestamp generation deletionTimestamp deletionGracePeriodSeconds selfLink namespace name"
).split()
POD_CHANGES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
WITH_STATUS = (
    "jobs",
    "pods",
    "nodes",
    "namespaces",
    "persistentvolumeclaims",
    "resourcequotas",
    "services",
)


def read(world: World, request: Request) -> Object:
    value = world.get(request.resource, request.namespace, request.name)
    if value is None:
        raise errors.not_found(request.resource.names, request.name)
    return value


def create(world: World, request: Request) -> Object:
    """Return the object that was created from the body of a request."""
    _check_type(request)
    value, causes = decoding.decode(request, request.document())
    # A plain error of the store, which nothing translates, hence the 500: ErrResourceVersionSetOnCreate
    # in pkg/storage/errors.go of k8s.io/apiserver.
    if value["metadata"].get("resourceVersion"):
        said = "resourceVersion should not be set on objects to be created"
        raise errors.refuse(500, "", said)
    if request.resource.namespaced:
        _check_namespace(world, request, value)
    made = add(world, request.resource, value, request.namespace, causes, dry=request.is_dry)
    if request.resource is NAMESPACES and not request.is_dry:
        _add_account(world, made["metadata"]["name"])
    return made


def add(
    world: World,
    resource: Resource,
    value: Object,
    namespace: str,
    causes: list[Cause] | None = None,
    *,
    dry: bool = False,
) -> Object:
    """Create an object; raise ServiceError if it is wrong, not admitted or there already."""
    meta = value["metadata"]
    generated = bool(meta.get("generateName")) and not meta.get("name")
    if generated:
        meta["name"] = names.generate(meta["generateName"])
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"):
        meta.pop(name, None)
    meta |= {"uid": world.new_uid(), "creationTimestamp": now()}
    if resource.namespaced:
        meta["namespace"] = namespace
    if "spec" in value and resource.names.plural != "services":
        meta["generation"] = 1
    if resource.names.plural in WITH_STATUS:
        value["status"] = (
            {"phase": "Pending", "qosClass": _quality(value)} if resource is PODS else {}
        )
    if resource is NAMESPACES:
        del value["status"]
    defaults.set_defaults(resource.names.kind, value)
    if resource is JOBS:
        defaults.set_selector(value)
    if not causes:
        admission.set_values(world, resource, value)
    problems = [*(causes or ()), *check(resource, value)]
    if problems:
        raise errors.invalid(resource.names, meta.get("name", ""), problems)
    # After the checks: an object that is wrong is 422 even where its name is taken, because etcd is
    # asked last.
    taken = world.get(resource, meta.get("namespace", ""), meta["name"])
    if taken is not None:
        raise errors.already_exists(resource.names, meta["name"], leaving=is_terminating(taken))
    admission.admit(world, resource, value)
    if len(json.dumps(value)) > MOST_BYTES:
        raise errors.refuse(500, "InternalError", "etcdserver: request is too large")
    return value if dry else world.put(resource, value)


def _add_account(world: World, namespace: str) -> None:
    """Make what a controller makes in each namespace, and pods need.

    https://kubernetes.io/docs/concepts/security/service-accounts/#default-service-accounts
    """
    meta = {"name": "default", "namespace": namespace, "uid": world.new_uid()}
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    world.put(ACCOUNTS, {**account, "metadata": {**meta, "creationTimestamp": now()}})


def _quality(pod: Object) -> str:
    """Return the quality of service of a pod.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
    """
    every = [c.get("resources") or {} for c in pod.get("spec", {}).get("containers", ())]
    if not any(r.get("limits") or r.get("requests") for r in every):
        return "BestEffort"
    full = all({"cpu", "memory"} <= {*(r.get("limits") or ())} for r in every)
    equal = all((r.get("requests") or r.get("limits")) == r.get("limits") for r in every)
    return "Guaranteed" if full and equal else "Burstable"


def _check_type(request: Request) -> None:
    given = request.headers.get("content-type", JSON).partition(";")[0].strip()
    if given != JSON:
        said = "the body of the request was in an unknown format - accepted media types include: "
        raise errors.refuse(415, "UnsupportedMediaType", said + JSON)


def _check_namespace(world: World, request: Request, value: Object) -> None:
    given = value["metadata"].get("namespace", request.namespace)
    if given != request.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    namespace = world.get(NAMESPACES, "", request.namespace)
    if namespace is None:
        raise errors.not_found(NAMESPACES.names, request.namespace)
    if is_terminating(namespace):
        why = f"unable to create new content in namespace {request.namespace} because it is being terminated"
        error = errors.forbidden(request.resource.names, value["metadata"].get("name", ""), why)
        message = f"namespace {request.namespace} is being terminated"
        cause = {"reason": "NamespaceTerminating", "message": message}
        error.details["details"]["causes"] = [{**cause, "field": "metadata.namespace"}]
        raise error


def check(resource: Resource, value: Object) -> Iterator[Cause]:
    """Yield what is wrong with an object."""
    yield from names.check_metadata(resource.names.kind, value["metadata"])
    if resource is JOBS:
        yield from job_rules.check(value)
    elif resource is PODS:
        yield from pod_rules.check_spec(value["spec"], "spec")
    elif resource in (SECRETS, CONFIG_MAPS):
        yield from _check_data(resource, value)


def _check_data(resource: Resource, value: Object) -> Iterator[Cause]:
    size = 0
    for field in ("data", "binaryData"):
        data = value.get(field) or {}
        yield from names.check_keys(data, field)
        for key in data.keys() & (value.get("binaryData") or {}) if field == "data" else ():
            yield errors.wrong(f"data[{key}]", key, "duplicate of key present in binaryData")
        coded = field == "binaryData" or resource is SECRETS
        size += sum(len(base64.b64decode(v) if coded else v.encode()) for v in data.values())
    if size > MOST_DATA:
        field = "data" if resource is SECRETS else "[]"
        yield Cause("FieldValueTooLong", field, f"Too long: may not be more than {MOST_DATA} bytes")


# Changes.


def update(world: World, request: Request) -> Object:
    """Replace an object, or its status."""
    _check_type(request)
    before = read(world, request)
    value, causes = decoding.decode(request, request.document())
    decoding.check_name(request, value)
    return _replace(world, request, before, value, causes)


def patch(world: World, request: Request) -> Object:
    before = read(world, request)
    kind = request.headers.get("content-type", "")
    patched = patches.apply(request.resource.names.kind, kind, before, request.json())
    value, causes = decoding.decode(request, patched)
    decoding.check_name(request, value)
    _check_version(
        request, before, value
    )  # before all else: Update in pkg/registry/generic/registry/store.go
    uid = value["metadata"].get("uid")
    if uid != before["metadata"]["uid"]:
        cause = errors.wrong("metadata.uid", uid, "field is immutable")
        raise errors.invalid(request.resource.names, request.name, [cause])
    return _replace(world, request, before, value, causes)


def _check_version(request: Request, before: Object, value: Object) -> None:
    # Without a version, or with 0, an update replaces whatever is there.
    known = (None, "", "0", before["metadata"]["resourceVersion"])
    if value["metadata"].get("resourceVersion") not in known:
        raise errors.conflict(request.resource.names, request.name, errors.MODIFIED)


def _replace(
    world: World, request: Request, before: Object, value: Object, causes: list[Cause]
) -> Object:
    resource, old = request.resource, before["metadata"]
    meta = value["metadata"]
    if meta.get("uid", old["uid"]) != old["uid"]:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old['uid']}"
        raise errors.conflict(resource.names, request.name, why)
    _check_version(request, before, value)
    meta["resourceVersion"] = old["resourceVersion"]
    for name in SERVER_SETS:
        meta.pop(name, None)
        if name in old:
            meta[name] = old[name]
    # The subresource changes the status alone, and the object itself everything else: so a user and a
    # controller cannot undo each other's changes.
    if request.sub == "status":
        value = {**copied(before), "status": value.get("status", {})}
        return value if request.is_dry else world.put(resource, value)
    if "status" in before:
        value["status"] = copied(before["status"])
    defaults.set_defaults(resource.names.kind, value)
    problems = [*causes, *check(resource, value), *_check_update(resource, value, before)]
    if problems:
        raise errors.invalid(resource.names, request.name, problems)
    # The generation counts versions of what is wanted; labels and the status do not.
    if value.get("spec") != before.get("spec") and "generation" in meta:
        meta["generation"] += 1
    if request.is_dry:
        return value
    kept = world.put(resource, value)
    deletion.settle(world, resource, kept)
    return kept


def _check_update(resource: Resource, value: Object, before: Object) -> Iterator[Cause]:
    if is_terminating(before):
        old = before["metadata"].get("finalizers") or []
        added = [f for f in value["metadata"].get("finalizers") or () if f not in old]
        if added:
            listed = ", ".join(errors.quoted(finalizer) for finalizer in added)
            why = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}"
            )
            yield errors.not_allowed("metadata.finalizers", why)
    if resource is JOBS:
        yield from job_rules.check_update(value, before)
    elif resource is PODS and _frozen(value["spec"]) != _frozen(before["spec"]):
        yield errors.not_allowed("spec", POD_CHANGES)
    elif resource in (SECRETS, CONFIG_MAPS) and before.get("immutable"):
        for field in ("data", "binaryData", "immutable"):
            if value.get(field) != before.get(field):
                yield errors.not_allowed(field, "field is immutable when `immutable` is set")
    if resource is SECRETS and value.get("type") != before.get("type"):
        yield errors.wrong("type", value.get("type"), "field is immutable")


def _frozen(spec: Object) -> Object:
    """Return what of a pod's spec cannot change."""
    kept = {k: v for k, v in spec.items() if k not in ("activeDeadlineSeconds", "tolerations")}
    for group in ("containers", "initContainers"):
        kept[group] = [{**c, "image": ""} for c in spec.get(group) or ()]
    return kept


def delete(world: World, request: Request) -> Object:
    """Delete the object of a request; return it, or a Status if it is gone."""
    resource = request.resource
    options = _options(request)
    value, gone = deletion.delete(world, resource, read(world, request), options)
    # These three return the object even when it is gone; other kinds return a Status.
    if not gone or resource.names.plural in ("pods", "services", "namespaces"):
        return value
    details = {**resource.names.details(request.name), "uid": value["metadata"]["uid"]}
    shown = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**shown, "details": details}


def _options(request: Request) -> dict[str, Any]:
    given = request.json()
    if given.get("kind", "DeleteOptions") != "DeleteOptions":
        raise errors.bad_request("converting (v1.Status) to (v1.DeleteOptions): unknown conversion")
    decoder = schema.Decoder("DeleteOptions", "v1")
    options = decoder.decode(given)
    grace = request.number("gracePeriodSeconds")
    if grace is not None:
        options.setdefault("gracePeriodSeconds", grace)
    if request.option("propagationPolicy"):
        options.setdefault("propagationPolicy", request.option("propagationPolicy"))
    deletion.check_options(options)
    policy = deletion.default_policy(request.resource, options)
    if policy and "propagationPolicy" not in options:
        options["propagationPolicy"] = policy
    return options


def delete_all(world: World, request: Request, chosen: list[Object]) -> None:
    options = _options(request)
    for value in chosen:
        deletion.delete(world, request.resource, value, options)


def evict(world: World, request: Request) -> Object:
    """Evict a pod as its API says: it is deleted with its grace, and its status says why.

    https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/,
    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    """
    value = read(world, request)
    options = request.json().get("deleteOptions") or {}
    message = "Eviction API: evicting"

    def mark(pod: Object) -> None:
        set_condition(pod["status"], "DisruptionTarget", "True", "EvictionByEvictionAPI", message)

    marked = world.change(PODS, request.namespace, request.name, mark) or value
    deletion.delete(world, PODS, marked, options)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
