"""What a container gets from its pod and from objects beside it: variables, and the files of volumes."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any

Object = dict[str, Any]
Reader = Callable[[str, str], Object | None]
"""Returns the object of a resource ("secrets") in the namespace of the pod by its name, or None."""

UNITS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(10) ** (3 * (i + 1)) for i, unit in enumerate(("k", "M", "G", "T", "P", "E"))},
    **{
        unit: Decimal(1 << 10 * (i + 1))
        for i, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    },
}
KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
REFERENCE = re.compile(r"\$(\$|\(([-._a-zA-Z0-9]+)\))")


class Missing(RuntimeError):
    """An object that a container needs is not there; *reason* is the one of the waiting container."""

    reason = "CreateContainerConfigError"


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace references to variables; "$$" is a dollar sign, and what is not there stays.

    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/

    >>> expand("$(A) $$(A) $(B) $A", {"A": "1"})
    '1 $(A) $(B) $A'
    """

    def replace(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return values.get(match[2], match[0])

    return REFERENCE.sub(replace, text)


def environment(
    pod: Object, container: Object, read: Reader, free: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a container. *free* is what the node has, by resource. Raises Missing."""
    values: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        for kind, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            if kind in source:
                content = _contents(read, resource, source[kind], source[kind]["name"])
                values |= {source.get("prefix", "") + k: v.decode() for k, v in content.items()}
    for entry in container.get("env", ()):
        source = entry.get("valueFrom")
        if source is None:
            values[entry["name"]] = expand(entry.get("value", ""), values)
            continue
        value = _sourced(pod, container, source, read, free)
        if value is not None:
            values[entry["name"]] = value
    return values


def _sourced(
    pod: Object, container: Object, source: Object, read: Reader, free: Mapping[str, str]
) -> str | None:
    if field := source.get("fieldRef"):
        return field_value(pod, field["fieldPath"])
    if resource := source.get("resourceFieldRef"):
        return resource_value(container, resource, free)
    kind, resource = (
        ("secretKeyRef", "secrets")
        if "secretKeyRef" in source
        else ("configMapKeyRef", "configmaps")
    )
    wanted = source[kind]
    content = _contents(read, resource, wanted, wanted["name"])
    if wanted["key"] in content:
        return content[wanted["key"]].decode()
    if wanted.get("optional"):
        return None
    what = "Secret" if resource == "secrets" else "ConfigMap"
    raise Missing(f"couldn't find key {wanted['key']} in {what} {_namespace(pod)}/{wanted['name']}")


def _namespace(pod: Object) -> str:
    return str(pod["metadata"]["namespace"])


def field_value(pod: Object, path: str) -> str:
    """Return a field of a pod as the downward API gives it; an empty text for a label that it does not have.

    https://kubernetes.io/docs/concepts/workloads/pods/downward-api/
    """
    if match := KEYED.fullmatch(path):
        return str(pod["metadata"].get(match[1], {}).get(match[2], ""))
    value: Any = pod
    for name in path.split("."):
        value = value.get(name, "")
    if isinstance(value, dict):
        return "\n".join(f'{k}="{v}"' for k, v in sorted(value.items()))
    return str(value)


def resource_value(container: Object, wanted: Object, free: Mapping[str, str]) -> str:
    """Return a request or a limit in units of its divisor, rounded up; without a limit, what the node has.

    >>> resources = {"limits": {"memory": "2Gi"}}
    >>> resource_value({"resources": resources}, {"resource": "limits.memory", "divisor": "1Mi"}, {})
    '2048'
    >>> resource_value({}, {"resource": "limits.cpu"}, {"cpu": "3500m"})
    '4'
    """
    kind, _, name = wanted["resource"].partition(".")
    text = container.get("resources", {}).get(kind, {}).get(name)
    if text is None:
        text = free.get(name, "0") if kind == "limits" else "0"
    divisor = wanted.get("divisor") or "1"
    parts = read_quantity(text) / (read_quantity(divisor) or 1)
    return str(int(parts.to_integral_value(ROUND_CEILING)))


def read_quantity(text: str) -> Decimal:
    """Return a quantity of Kubernetes as a number.

    >>> read_quantity("1500m"), read_quantity("2Ki")
    (Decimal('1.500'), Decimal('2048'))
    """
    number = text.rstrip("numkKMGTPEi")
    return Decimal(number) * UNITS[text[len(number) :]]


def _contents(read: Reader, resource: str, source: Object, name: str) -> dict[str, bytes]:
    found = read(resource, name)
    if found is None:
        if source.get("optional"):
            return {}
        raise Missing(f'{resource.removesuffix("s")} "{name}" not found')
    plain = {k: v.encode() for k, v in found.get("data", {}).items()}
    if resource == "secrets":
        return {k: base64.b64decode(v) for k, v in plain.items()}
    return plain | {k: base64.b64decode(v) for k, v in found.get("binaryData", {}).items()}


def write_files(folder: Path, files: Mapping[str, bytes], mode: int) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)


def volume_files(
    pod: Object, volume: Object, read: Reader
) -> Iterator[tuple[dict[str, bytes], int]]:
    """Yield the files of a volume that has the content of objects, with their mode. Raises Missing."""
    if "configMap" in volume:
        source = volume["configMap"]
        yield _chosen(read, "configmaps", source, source["name"])
    elif "secret" in volume:
        source = volume["secret"]
        yield _chosen(read, "secrets", source, source["secretName"])
    elif "downwardAPI" in volume:
        items = volume["downwardAPI"].get("items", ())
        files = {i["path"]: field_value(pod, i["fieldRef"]["fieldPath"]).encode() for i in items}
        yield files, volume["downwardAPI"].get("defaultMode", 0o644)
    elif "projected" in volume:
        for source in volume["projected"].get("sources", ()):
            for files, _ in volume_files(pod, _unprojected(source), read):
                yield files, volume["projected"].get("defaultMode", 0o644)


def _unprojected(source: Object) -> Object:
    if "secret" in source:
        return {"secret": {**source["secret"], "secretName": source["secret"]["name"]}}
    return source


def _chosen(read: Reader, resource: str, source: Object, name: str) -> tuple[dict[str, bytes], int]:
    content = _contents(read, resource, source, name)
    if items := source.get("items"):
        absent = [item["key"] for item in items if item["key"] not in content]
        if absent and not source.get("optional"):
            raise Missing(f"references non-existent config key: {absent[0]}")
        content = {item["path"]: content[item["key"]] for item in items if item["key"] in content}
    return content, source.get("defaultMode", 0o644)
