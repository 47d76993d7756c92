"""What pods may be: of containers, their names, resources, variables and volumes.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Any

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import names, quantity
from runspec_emulators.kubernetes.errors import Cause

Object = dict[str, Any]
FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|labels\['[^']+'\]|annotations\['[^']+'\])|"
    r"spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs)"
)
MOST_ID = 2**31 - 1
# The order in which the server looks for the types of a volume: validateVolumeSource in pkg/apis/core/validation
KINDS = (
    "emptyDir hostPath secret nfs persistentVolumeClaim downwardAPI configMap projected csi ephemeral"
).split()
NOT_INTEGER = "must be an integer"
GPU_EQUAL = "Limit must be set for non overcommitable resources"


def check_spec(spec: Object, at: str, restart: tuple[str, ...] = ()) -> Iterator[Cause]:
    """Yield what is wrong with the spec of a pod at the path *at*. *restart*: the policies that are allowed."""
    policy = spec.get("restartPolicy")
    if restart and policy not in restart:
        known = [str(p) for p in sorted(restart)]
        yield (
            errors.unsupported(f"{at}.restartPolicy", policy, known)
            if policy != "Always"
            else (errors.required(f"{at}.restartPolicy", 'valid values: "OnFailure", "Never"'))
        )
    grace = spec.get("terminationGracePeriodSeconds", 0)
    if grace < 0:
        yield errors.wrong(
            f"{at}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0"
        )
    if spec.get("activeDeadlineSeconds", 1) < 1:
        value = spec["activeDeadlineSeconds"]
        yield errors.wrong(
            f"{at}.activeDeadlineSeconds", value, "must be between 1 and 2147483647, inclusive"
        )
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            for problem in names.label_problems(spec[name]):
                yield errors.wrong(f"{at}.{name}", spec[name], problem)
    yield from names.check_labels(spec.get("nodeSelector") or {}, f"{at}.nodeSelector")
    yield from _users(spec.get("securityContext") or {}, f"{at}.securityContext")
    yield from _tolerations(spec.get("tolerations") or [], f"{at}.tolerations")
    volumes = yield from _volumes(spec.get("volumes") or [], f"{at}.volumes")
    if not spec.get("containers"):
        if "containers" in spec:
            yield errors.required(f"{at}.containers")
        return
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(group) or ()):
            place = f"{at}.{group}[{number}]"
            if container.get("name", "") in seen:
                yield _twice(f"{place}.name", container["name"])
            seen.add(container.get("name", ""))
            yield from _container(container, place, volumes)


def _tolerations(tolerations: list[Object], at: str) -> Iterator[Cause]:
    for number, toleration in enumerate(tolerations):
        place, key = f"{at}[{number}]", toleration.get("key", "")
        operator, value = toleration.get("operator", ""), toleration.get("value", "")
        for problem in names.key_problems(key) if key else ():
            yield errors.wrong(f"{place}.key", key, problem)
        if not key and operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield errors.wrong(f"{place}.operator", operator, why)
        if operator == "Exists" and value:
            why = "value must be empty when `operator` is 'Exists'"
            yield errors.wrong(f"{place}.operator", toleration, why)
        elif operator != "Exists" and (problem := ";".join(names.value_problems(value))):
            yield errors.wrong(f"{place}.operator", value, problem)
        effect = toleration.get("effect", "")
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield errors.wrong(f"{place}.effect", effect, why)


def _users(context: Object, at: str) -> Iterator[Cause]:
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        if not 0 <= context.get(name, 0) <= MOST_ID:
            yield errors.wrong(
                f"{at}.{name}", context[name], f"must be between 0 and {MOST_ID}, inclusive"
            )


def _twice(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {errors.quoted(value)}")


def _volumes(volumes: list[Object], at: str) -> Generator[Cause, None, set[str]]:
    seen: set[str] = set()
    for number, volume in enumerate(volumes):
        name, place = volume.get("name", ""), f"{at}[{number}]"
        for problem in names.label_problems(name) if name else ():
            yield errors.wrong(f"{place}.name", name, problem)
        if name in seen:
            yield _twice(f"{place}.name", name)
        seen.add(name)
        kinds = [kind for kind in KINDS if kind in volume]
        kinds += sorted(set(volume) - {"name", *kinds})
        for kind in kinds[1:]:
            why = "may not specify more than 1 volume type"
            yield errors.not_allowed(f"{place}.{kind}", why)
    return seen


def _container(container: Object, at: str, volumes: set[str]) -> Iterator[Cause]:
    name = container.get("name", "")
    for problem in names.label_problems(name) if name else ():
        yield errors.wrong(f"{at}.name", name, problem)
    if not container.get("image"):
        yield errors.required(f"{at}.image")
    yield from _resources(container.get("resources", {}), f"{at}.resources")
    for number, variable in enumerate(container.get("env") or ()):
        yield from _variable(variable, f"{at}.env[{number}]")
    yield from _users(container.get("securityContext") or {}, f"{at}.securityContext")
    paths: set[str] = set()
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        place = f"{at}.volumeMounts[{number}]"
        if mount.get("name") and mount["name"] not in volumes:
            message = f"Not found: {errors.quoted(mount['name'])}"
            yield Cause("FieldValueNotFound", f"{place}.name", message)
        path = mount.get("mountPath", "")
        if path in paths:
            yield errors.wrong(f"{place}.mountPath", path, "must be unique")
        paths.add(path)
        below = mount.get("subPath", "")
        # It would lead out of the volume, to files of the node.
        if ".." in below.split("/"):
            yield errors.wrong(f"{at}.volumeMounts.subPath", below, "must not contain '..'")


def _variable(variable: Object, at: str) -> Iterator[Cause]:
    name = variable.get("name", "")
    if not name:
        yield errors.required(f"{at}.name")
    elif not re.fullmatch("[ -<>-~]+", name):
        why = (
            "a valid environment variable name must consist only of printable ASCII characters "
            "other than '='"
        )
        yield errors.wrong(f"{at}.name", name, why)
    source = variable.get("valueFrom")
    if source is None:
        return
    if variable.get("value"):
        why = "may not be specified when `value` is not empty"
        yield errors.wrong(f"{at}.valueFrom", "", why)
    if len(source) != 1:
        why = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            if not source
            else "may not have more than one field specified at a time"
        )
        yield errors.wrong(f"{at}.valueFrom", "", why)
    path = source.get("fieldRef", {}).get("fieldPath")
    if path and not FIELDS.fullmatch(path):
        why = f"error converting fieldPath: field label not supported: {path}"
        yield errors.wrong(f"{at}.valueFrom.fieldRef.fieldPath", path, why)


def _resources(resources: Object, at: str) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, values in (("limits", limits), ("requests", requests)):
        for name, value in values.items():
            place, number = f"{at}.{kind}[{name}]", quantity.read(value)
            if number < 0:
                yield errors.wrong(place, value, "must be greater than or equal to 0")
            if _extended(name) and number.denominator != 1:
                yield errors.wrong(place, value, NOT_INTEGER)
            if (
                "/" not in name
                and name not in ("cpu", "memory", "ephemeral-storage")
                and not name.startswith("hugepages-")
            ):
                yield errors.wrong(
                    place, name, "must be a standard resource type or fully qualified"
                )
                yield errors.wrong(place, name, "must be a standard resource for containers")
    for name, value in requests.items():
        place = f"{at}.requests"
        # A device cannot be overcommitted, so its request and its limit are the same:
        # https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/
        if _extended(name) and name not in limits:
            yield errors.required(f"{at}.limits", GPU_EQUAL)
        elif _extended(name) and quantity.read(value) != quantity.read(limits[name]):
            yield errors.wrong(place, value, f"must be equal to {name} limit of {limits[name]}")
        elif name in limits and quantity.read(value) > quantity.read(limits[name]):
            yield errors.wrong(
                place, value, f"must be less than or equal to {name} limit of {limits[name]}"
            )


def _extended(name: str) -> bool:
    """Return whether a resource is one of a device plugin: "nvidia.com/gpu" and its like."""
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")
