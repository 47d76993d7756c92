"""The variables of a container, and the words of its command.

https://kubernetes.io/docs/concepts/workloads/pods/downward-api/,
https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from runspec_emulators.kubernetes.api import quantity
from runspec_emulators.kubernetes.resources import CONFIG_MAPS, NODES, SECRETS, Resource
from runspec_emulators.kubernetes.world import Object, World

_KEY = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_REFERENCE = re.compile(r"\$\$|\$\(([^()]+)\)")
# What containerd gives a container whose image sets no PATH: defaultUnixEnv in its oci/spec.go.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Missing(Exception):
    """Something that a container needs is not there: it waits with CreateContainerConfigError."""


def expand(text: str, env: Mapping[str, str]) -> str:
    """Return a text with $(NAME) replaced where there is such a variable; "Double $$ are reduced to a single $".

    >>> expand("$(A) $(B) $$(A)", {"A": "1"})
    '1 $(B) $(A)'
    """

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def read_data(
    world: World, resource: Resource, namespace: str, name: str
) -> dict[str, bytes] | None:
    """Return the data of a ConfigMap or a Secret; None if it is not there."""
    value = world.get(resource, namespace, name)
    if value is None:
        return None
    data = value.get("data") or {}
    if resource is SECRETS:
        return {k: base64.b64decode(v) for k, v in data.items()}
    binary = {k: base64.b64decode(v) for k, v in (value.get("binaryData") or {}).items()}
    return {**{k: v.encode() for k, v in data.items()}, **binary}


def variables(world: World, pod: Object, container: Object, address: str) -> dict[str, str]:
    """Return the variables that the pod gives a container; raise Missing."""
    env: dict[str, str] = {}
    namespace = pod["metadata"]["namespace"]
    # First: "Values defined by an Env with a duplicate key will take precedence".
    for source in container.get("envFrom") or ():
        env |= _all_of(world, namespace, source)
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            value = _value(world, pod, container, variable["valueFrom"], address)
            if value is not None:
                env[variable["name"]] = value
        else:
            env[variable["name"]] = expand(variable.get("value", ""), env)
    return env


def _all_of(world: World, namespace: str, source: Object) -> dict[str, str]:
    resource = SECRETS if "secretRef" in source else CONFIG_MAPS
    reference = source.get("secretRef") or source["configMapRef"]
    data = read_data(world, resource, namespace, reference["name"])
    if data is None:
        if reference.get("optional"):
            return {}
        raise Missing(f'{resource.names.kind.lower()} "{reference["name"]}" not found')
    return {source.get("prefix", "") + k: v.decode(errors="replace") for k, v in data.items()}


def _value(
    world: World, pod: Object, container: Object, source: Object, address: str
) -> str | None:
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"], address)
    if "resourceFieldRef" in source:
        return resource_field(world, pod, container, source["resourceFieldRef"])
    resource = SECRETS if "secretKeyRef" in source else CONFIG_MAPS
    reference = source.get("secretKeyRef") or source["configMapKeyRef"]
    name, key = reference["name"], reference["key"]
    data = read_data(world, resource, pod["metadata"]["namespace"], name)
    if data is not None and key in data:
        return data[key].decode(errors="replace")
    if reference.get("optional"):
        return None
    kind = resource.names.kind.lower()
    if data is None:
        raise Missing(f'{kind} "{name}" not found')
    namespace = pod["metadata"]["namespace"]
    raise Missing(f"couldn't find key {key} in {resource.names.kind} {namespace}/{name}")


def field(pod: Object, path: str, address: str) -> str:
    """Return a field of a pod as its containers see it; *address* is the pod's."""
    if match := _KEY.fullmatch(path):
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    if path in ("status.podIP", "status.podIPs"):
        return address
    if path in ("status.hostIP", "status.hostIPs"):
        return "127.0.0.1"
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = pod["metadata"].get(path.partition(".")[2]) or {}
        return "\n".join(f'{k}="{v}"' for k, v in sorted(pairs.items()))
    value: Any = pod
    for name in path.split("."):
        value = value.get(name, "")
    return str(value)


def resource_field(world: World, pod: Object, container: Object, reference: Object) -> str:
    """Return a limit or request, rounded up to a whole divisor; without a limit, what the node has."""
    kind, _, name = reference["resource"].partition(".")
    values = container.get("resources", {}).get(kind) or {}
    node = world.get(NODES, "", pod["spec"].get("nodeName", "")) or {"status": {"allocatable": {}}}
    nothing = "0" if kind == "requests" else node["status"]["allocatable"].get(name, "0")
    number = quantity.read(values.get(name, nothing))
    divisor = quantity.read(reference.get("divisor") or "1") or Fraction(1)
    return str(-(-number // divisor))
