"""What admits new objects: priorities, limit ranges, pod security standards and quotas.

https://kubernetes.io/docs/concepts/security/pod-security-standards/,
https://github.com/kubernetes/pod-security-admission/tree/master/policy,
https://kubernetes.io/docs/concepts/policy/resource-quotas/, https://kubernetes.io/docs/concepts/policy/limit-range/
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import quantity
from runspec_emulators.kubernetes.resources import (
    ACCOUNTS,
    JOBS,
    KUEUE,
    LIMITS,
    NAMESPACES,
    PODS,
    PRIORITIES,
    QUOTAS,
    Resource,
)
from runspec_emulators.kubernetes.world import Object, World, has_ended

SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
ENFORCE = "pod-security.kubernetes.io/enforce"
VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
"""The types of volumes that "restricted" allows."""
PLAIN = ("cpu", "memory", "ephemeral-storage")


def set_values(world: World, resource: Resource, value: Object) -> None:
    """Set what admission sets: priorities, and the defaults of limit ranges. Raise ServiceError."""
    if resource is JOBS and world.settings.kueue:
        # Kueue's webhook: "Kueue will suspend the Job"
        queue = (value["metadata"].get("labels") or {}).get(f"{KUEUE}/queue-name")
        value["spec"]["suspend"] |= queue is not None
    if resource is not PODS:
        return
    spec, meta = value["spec"], value["metadata"]
    account = spec["serviceAccountName"]
    if account != "default" and world.get(ACCOUNTS, meta["namespace"], account) is None:
        why = f'serviceaccount "{account}" not found'
        place = f"error looking up service account {meta['namespace']}/{account}"
        raise errors.forbidden(PODS.names, meta.get("name", ""), f"{place}: {why}")
    name = spec.get("priorityClassName")
    spec["priority"] = _priority(world, name, meta)
    for limits in world.all(LIMITS, meta["namespace"]):
        for limit in limits["spec"].get("limits") or ():
            if limit.get("type") == "Container":
                for container in spec["containers"]:
                    _limit(container["resources"], limit)


def _priority(world: World, name: str | None, meta: Object) -> int:
    if not name:
        return 0
    if name in SYSTEM:
        return SYSTEM[name]
    kept = world.get(PRIORITIES, "", name)
    if kept is None:
        why = f"no PriorityClass with name {name} was found"
        raise errors.forbidden(PODS.names, meta.get("name", ""), why)
    value: int = kept["value"]
    return value


def _limit(resources: Object, limit: Object) -> None:
    for field, source in (("limits", "default"), ("requests", "defaultRequest")):
        for name, value in (limit.get(source) or {}).items():
            resources.setdefault(field, {}).setdefault(name, value)


def admit(world: World, resource: Resource, value: Object) -> None:
    """Raise ServiceError if the object is not admitted."""
    if resource is PODS:
        _check_limits(world, value)
        _check_security(world, value)
    if resource.namespaced:
        _check_quotas(world, resource, value)


def _check_limits(world: World, pod: Object) -> None:
    meta = pod["metadata"]
    for limits in world.all(LIMITS, meta["namespace"]):
        for limit in limits["spec"].get("limits") or ():
            for name, most in (limit.get("max") or {}).items():
                for container in pod["spec"]["containers"]:
                    given = (container["resources"].get("limits") or {}).get(name)
                    if given is not None and quantity.read(given) > quantity.read(most):
                        why = f"maximum {name} usage per {limit['type']} is {most}, but limit is {given}"
                        raise errors.forbidden(PODS.names, meta["name"], why)


def _check_security(world: World, pod: Object) -> None:
    namespace = world.get(NAMESPACES, "", pod["metadata"]["namespace"]) or {"metadata": {}}
    level = (namespace["metadata"].get("labels") or {}).get(ENFORCE)
    if level == "restricted" and (problems := list(restricted(pod["spec"]))):
        why = f'violates PodSecurity "restricted:latest": {", ".join(problems)}'
        raise errors.forbidden(PODS.names, pod["metadata"]["name"], why)


def restricted(spec: Object) -> Iterator[str]:
    """Yield what the standard "restricted" does not allow."""
    whole = spec.get("securityContext") or {}
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield f"host namespaces ({name}=true)"
    every = [*spec["containers"], *(spec.get("initContainers") or ())]
    named = [(c["name"], c.get("securityContext") or {}) for c in every]
    yield from _said(
        [n for n, s in named if s.get("allowPrivilegeEscalation") is not False],
        "allowPrivilegeEscalation != false ({} must set securityContext.allowPrivilegeEscalation=false)",
    )
    yield from _said(
        [n for n, s in named if not _drops(s.get("capabilities") or {})],
        'unrestricted capabilities ({} must set securityContext.capabilities.drop=["ALL"])',
    )
    for volume in spec.get("volumes") or ():
        if kinds := set(volume) - {"name"} - VOLUMES:
            kind = min(kinds)
            yield f'restricted volume types (volume "{volume["name"]}" uses restricted volume type "{kind}")'
    yield from _said(
        [n for n, s in named if not s.get("runAsNonRoot", whole.get("runAsNonRoot"))],
        "runAsNonRoot != true (pod or {} must set securityContext.runAsNonRoot=true)",
    )
    if whole.get("runAsUser") == 0:
        yield "runAsUser=0 (pod must not set runAsUser=0)"
    yield from _said(
        [n for n, s in named if s.get("runAsUser") == 0],
        "runAsUser=0 ({} must not set runAsUser=0)",
    )
    safe = ("RuntimeDefault", "Localhost")
    profile = (whole.get("seccompProfile") or {}).get("type")
    yield from _said(
        [n for n, s in named if (s.get("seccompProfile") or {}).get("type", profile) not in safe],
        'seccompProfile (pod or {} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    )


def _drops(capabilities: Object) -> bool:
    added = set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}
    return "ALL" in (capabilities.get("drop") or ()) and not added


def _said(containers: list[str], text: str) -> Iterator[str]:
    if containers:
        quoted = ", ".join(f'"{name}"' for name in containers)
        yield text.format(f"container{'s' * (len(containers) > 1)} {quoted}")


# Quotas.


def usage(resource: Resource, value: Object) -> dict[str, Fraction]:
    """Return what an object counts for in quotas, by the names that these use."""
    names = resource.names
    counted = {f"count/{names.resource}": Fraction(1)}
    if not names.group:
        counted[names.plural] = Fraction(1)
    if resource is not PODS:
        return counted
    if has_ended(value):  # "the total number of Pods in a non-terminal state"
        return {f"count/{names.plural}": Fraction(1)}
    for kind in ("requests", "limits"):
        for name, number in quantity.of_pod(value["spec"], kind).items():
            counted[f"{kind}.{name}"] = number
            if kind == "requests" and name in PLAIN:
                counted[name] = number
    return counted


def used(world: World, namespace: str, quota: Object) -> dict[str, Fraction]:
    """Return what is used of a quota."""
    from runspec_emulators.kubernetes.resources import RESOURCES

    hard = quota["spec"].get("hard") or {}
    sums = dict.fromkeys(hard, Fraction(0))
    for resource in RESOURCES:
        if resource.namespaced and resource.stored:
            for value in world.all(resource, namespace):
                for name, number in usage(resource, value).items():
                    if name in sums:
                        sums[name] += number
    return sums


def _check_quotas(world: World, resource: Resource, value: Object) -> None:
    meta, asked = value["metadata"], usage(resource, value)
    for quota in world.all(QUOTAS, meta["namespace"]):
        hard = quota["spec"].get("hard") or {}
        name = quota["metadata"]["name"]
        if resource is PODS:
            computed = [
                n
                for n in hard
                if n in PLAIN or n.startswith(("requests.cpu", "requests.memory", "limits."))
            ]
            # A pod without requests could not be counted: "users must specify requests or limits for those
            # values; otherwise, the quota system may reject pod creation".
            if missing := sorted(n for n in computed if n not in asked):
                containers = ",".join(c["name"] for c in value["spec"]["containers"])
                said = "; ".join(f"{n} for: {containers}" for n in missing)
                raise errors.forbidden(
                    resource.names, meta["name"], f"failed quota: {name}: must specify {said}"
                )
        # A quota that is exceeded already refuses only what would take more of the same.
        touched = sorted(n for n in asked if n in hard and asked[n])
        if not touched:
            continue
        now = used(world, meta["namespace"], quota)
        over = [n for n in touched if now[n] + asked[n] > quantity.read(hard[n])]
        if over:
            parts = (
                ("requested", {n: quantity.write(asked[n]) for n in over}),
                ("used", {n: quantity.write(now[n]) for n in over}),
                ("limited", {n: hard[n] for n in over}),
            )
            said = ", ".join(
                f"{word}: {','.join(f'{n}={v}' for n, v in d.items())}" for word, d in parts
            )
            raise errors.forbidden(resource.names, meta["name"], f"exceeded quota: {name}, {said}")
